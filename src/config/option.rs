//! Entries of the table of options, and the variables that are no options.

use super::kind::Kind;
use std::fmt;

/// Who is expected to set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The people who run the machine, once, in a file.
    Site,
    /// The person who runs a job.
    User,
    /// Whoever looks for a fault in kolo; such an option may change with any version.
    Debug,
}

impl Tag {
    /// All tags in the order of the documentation.
    pub const ALL: [Tag; 3] = [Tag::Site, Tag::User, Tag::Debug];

    /// `site`, `user` or `debug`.
    pub fn text(self) -> &'static str {
        match self {
            Tag::Site => "site",
            Tag::User => "user",
            Tag::Debug => "debug",
        }
    }
}

/// A documented variable of another library that sets an option of kolo too.
#[derive(Clone, Copy)]
pub struct Alias {
    /// Its name.
    pub name: &'static str,
    /// Turns its values into kolo's; a value without a counterpart comes back unchanged, so that
    /// the option's own check refuses it.
    pub(super) translate: fn(&str) -> String,
}

/// One option.
#[derive(Clone, Copy)]
pub struct Opt {
    /// The key in TOML files and in values given by the program.
    pub key: &'static str,
    /// One sentence.
    pub(super) doc: &'static str,
    /// Kind of values that it takes.
    pub kind: Kind,
    /// The value where no layer gives one, written as in the environment.
    pub default: &'static str,
    /// The unit of its number, or nothing.
    pub unit: &'static str,
    /// Who sets it.
    pub tag: Tag,
    /// Whether all ranks must have the same value, because plans or the exchange of messages follow
    /// from it.
    pub shapes: bool,
    /// Variables of other libraries that set it; where several are set, the first counts.
    pub aliases: &'static [Alias],
    /// Further text for the page of documentation, such as how an alias is understood.
    pub note: &'static str,
}

impl Opt {
    /// The environment variable of the option: `KOLO_BUFFSIZE` for `buffsize`.
    pub fn variable(&self) -> String {
        format!("KOLO_{}", self.key.to_ascii_uppercase())
    }

    /// Says in one sentence what the option does.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }
}

impl fmt::Debug for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key)
    }
}

/// How the words begin about variables that concern tests alone.
pub const FOR_TESTS: &str = "for tests: ";

/// Variables named `KOLO_*` that are no options: the settings neither read nor refuse them.
pub const RESERVED: &[(&str, &str)] = &[
    ("KOLO_CONFIG", "names a TOML file; the file must exist"),
    (
        "KOLO_PROFILE",
        "chooses a `[profile.NAME]` of the site; `none` chooses none",
    ),
    ("KOLO_PREFIX", "where builds and tests install kolo"),
    (
        "KOLO_MPI_LIBRARY",
        "names the libkolo_mpi.so that the kolo program, and programs in Rust, load under mpirun",
    ),
    (
        "KOLO_RANK",
        "this rank, for koloCommInitEnv without a launcher",
    ),
    (
        "KOLO_NRANKS",
        "the number of ranks, for koloCommInitEnv without a launcher",
    ),
    (
        "KOLO_PMIX_LIBRARY",
        "names the libpmix.so.2 that koloCommInitEnv loads",
    ),
    (
        "KOLO_CUDA_LIBRARY",
        "names the library that stands in for `libcuda.so.1`, such as the software GPU's",
    ),
    (
        "KOLO_SOFTGPU_DEVICES",
        "how many devices the software GPU has; `docs/softgpu.md` has its other variables",
    ),
    ("KOLO_BLESS", "for tests: rewrites the generated files"),
    (
        "KOLO_CHROOT_INSIDE",
        "for tests: says to the one in a fresh system that it runs there",
    ),
];

/// Beginnings of further names that the settings neither read nor refuse: of test programs, and of
/// the software GPU, which reads its own.
pub const RESERVED_PREFIXES: [&str; 2] = ["KOLO_TEST_", "KOLO_SOFTGPU_"];

/// Entries that most options leave as they are.
pub(super) const BASE: Opt = Opt {
    key: "",
    doc: "",
    kind: Kind::Bool,
    default: "",
    unit: "",
    tag: Tag::User,
    shapes: false,
    aliases: &[],
    note: "",
};

/// Makes of the entries the table `OPTIONS`, and a macro `getters` that `Settings` expands.
macro_rules! options {
    ($(
        $(#[doc = $doc:literal])+
        $key:ident -> $out:ty { $($field:ident: $value:expr),+ $(,)? }
    )+) => {
        /// Places of the options in the table.
        #[allow(non_camel_case_types)]
        pub(super) enum Index { $($key),+ }

        /// All options, in the order of the documentation.
        pub static OPTIONS: &[Opt] = &[
            $( Opt {
                key: stringify!($key),
                doc: concat!($($doc),+),
                $($field: $value,)+
                ..BASE
            } ),+
        ];

        /// Expands to typed getters, one per option. A getter that returns an `Option` gives `None`
        /// where the option is not set, or has the word that stands for 0 (`auto`, `none`).
        macro_rules! getters {
            () => {
                $(
                    $(#[doc = $doc])+
                    pub fn $key(&self) -> $out {
                        FromValue::from_value(self.value(Index::$key as usize))
                    }
                )+

                /// Calls every getter, so that a test notices one whose type does not fit its kind.
                #[cfg(test)]
                pub(in crate::config) fn read_every_getter(&self) -> usize {
                    [$({ let _ = self.$key(); Index::$key as usize }),+].len()
                }
            };
        }
        pub(super) use getters;
    };
}
