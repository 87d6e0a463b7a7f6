from turnout.cli.app import main

main()
