

def load(path):
    """Loads a saved program. If its output is of a class of the package transformers, the package is imported first."""
    try:
        return torch.export.load(path)
    except Exception:
        try:
            import transformers.modeling_outputs  # noqa: F401
        except ImportError:
            pass
        else:
            return torch.export.load(path)
        raise


def main():
    parser = argparse.ArgumentParser(description="Writes a saved torch.export program as stagewright.graph/2 JSON.")
    parser.add_argument("program", help="a file written by torch.export.save")
    parser.add_argument("--out", help="output file [default: standard output]")
    parser.add_argument("--name", default="", help="name of the model")
    parser.add_argument("--no-fuse", action="store_true", help="price every operator as its own kernel")
    parser.add_argument(
        "--measure",
        nargs="?",
        const="",
        metavar="CLASS",
        help="run the program on random inputs and write the seconds of every operator for this device class [default: a "
        "name for the device]; give it after the program",
    )
    parser.add_argument("--device", help="where to measure, as PyTorch names it [default: cuda if there is one, or cpu]")
    arguments = parser.parse_args()
    try:
        program = load(arguments.program)
        made = document(program, arguments.name, not arguments.no_fuse, "", arguments.measure, arguments.device)
        if arguments.out:
            write_document(made, arguments.out)
        else:
            json.dump(made, sys.stdout, indent=1)
            print()
    except NotExportable as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
