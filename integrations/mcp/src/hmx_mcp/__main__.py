from hmx_mcp.server import main

main()
