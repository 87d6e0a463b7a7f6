from turnout.hub.main import main

main()
