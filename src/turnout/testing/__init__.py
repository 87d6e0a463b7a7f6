"""What tests of turnout, and of what plugs into it, may build on: a clock that waits for nobody, and a simulator."""
