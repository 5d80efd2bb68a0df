from hmx_pipeline.cli.app import main

main()
