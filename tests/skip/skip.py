"""A test that cannot run on this machine says so here. Under CI=true it fails, unless
tests/skipped.txt names it with a reason."""
import os

LIST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "skipped.txt")


def skip(name, why):
    """Says that test `name` does not run here, and why; the exit status that this gives."""
    print("skipped: %s: %s" % (name, why), flush=True)
    with open(LIST) as f:
        listed = any(line.split()[:1] == [name] and len(line.split()) > 1 for line in f)
    if os.environ.get("CI") != "true" or listed:
        return 0
    print("%s is skipped under CI, and tests/skipped.txt does not say that it may be" % name)
    return 1
