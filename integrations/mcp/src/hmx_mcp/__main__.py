"""`hmx-mcp`, the command."""

from hmx_mcp.stdio import main

if __name__ == "__main__":
    main()
