//! Text of the page about files of a site, with examples that a test reads.

/// Words that stand highest in the list of layers.
pub(super) const LOCKS: &str =
    "what a file of the site (2 or 3) locks: nothing above that file changes it";

/// Lines that may stand above the settings of a file, as an example.
pub(super) const ABOVE: &str = "\
include = [\"network.toml\"]        # files beside this one; what this one says counts more
locked = [\"net\", \"shm_disable\"]  # nobody else changes these options
default_profile = \"usual\"         # where KOLO_PROFILE is not set
";

/// Lines that may stand below the settings of a file, as an example.
pub(super) const BELOW: &str = "\
[profile.usual]
timeout = 1800

[profile.traced]                  # KOLO_PROFILE=traced, srun --kolo=traced
debug = \"info\"
preload = [\"/opt/tools/lib/libtrace.so\"]
";

/// The section of the page on what a file may hold besides settings.
pub(super) fn site_section() -> String {
    format!(
        "## Files of a site\n\n\
         A file is a list of `key = value`, one a line. It may also have:\n\n\
         ```toml\n{ABOVE}\nnet = \"verbs\"\n\n{BELOW}```\n\n{RULES}"
    )
}

const RULES: &str = "\
- **`include`** names files, relative to the folder of the file that includes them. They are read \
before it: what it says counts more than what they say, and of two the later counts more. A file \
that cannot be read, and one that includes itself in a circle, are errors with file and line. \
Included files are of the layer of the file that includes them, and warned of in the same way if \
others may write them.
- **`[profile.NAME]`** has settings that a job chooses with `KOLO_PROFILE=NAME` (under Slurm \
`srun --kolo=NAME`). Where the variable is not set, `default_profile` counts, of the highest file \
that has it; `KOLO_PROFILE=none` chooses none. Files of the site alone (layers 2 and 3) have \
profiles. A name that is not there is an error that tells the nearest one. A name has letters, \
digits, `.`, `_` and `-`; one with a period stands in quotes: `[profile.\"v1.2\"]`. `preload` \
names libraries that the tasks of a step load first; Slurm's plugin reads it, in its site file \
and not in included ones, and kolo itself loads nothing for it.
- **`locked`** lists options of which nothing above the file changes the value: no other file, no \
profile, no variable and no program. The value is that of the file and those below it, or the \
built-in one. Whoever gives another value gets one warning, which names the file that locks it. \
Files of the site alone lock options. A lock is a rule for honest users, as kolo runs in their own \
processes.

Before a file is installed, `kolo config check FILE` tells what is wrong in it, with line and \
column, and ends with 1 if anything is; without a name it looks at all files in force, and \
     at the variables of the environment. \
`kolo config diff FILE` shows what a file changes, and `kolo config diff A B` in what two differ.
";
