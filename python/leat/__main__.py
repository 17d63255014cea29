"""`python -m leat` is the program `leat`."""

from leat._program import main

if __name__ == "__main__":
    main()
