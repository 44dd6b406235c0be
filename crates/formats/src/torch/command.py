

def load(path):
    """A saved program; what it gives out may be a class of transformers, which has to be imported first."""
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
    arguments = parser.parse_args()
    try:
        made = document(load(arguments.program), arguments.name, not arguments.no_fuse)
        if arguments.out:
            write_document(made, arguments.out)
        else:
            json.dump(made, sys.stdout, indent=1)
            print()
    except NotExportable as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
