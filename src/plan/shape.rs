//! The shape of a plan: collective, algorithm, ranks, root, channels.

pub use crate::base::Collective;

macro_rules! names {
    ($( $section:ident {
        $( #[doc = $doc:literal] $variant:ident = $name:literal { $($entries:tt)* } )*
    } )*) => {
        /// The algorithms that emit plans: those of the table in `algo`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Algorithm {
            $( $( #[doc = $doc] $variant, )* )*
        }

        impl Algorithm {
            /// All of them.
            pub const ALL: &'static [Algorithm] = &[ $( $( Algorithm::$variant, )* )* ];

            /// The name in settings and dumps.
            pub fn name(self) -> &'static str {
                match self { $( $( Algorithm::$variant => $name, )* )* }
            }
        }
    };
}

algorithms!(names);

impl Algorithm {
    /// The algorithm with this name in settings.
    pub fn named(name: &str) -> Option<Algorithm> {
        let is_it = |algorithm: &&Algorithm| algorithm.name() == name;
        Algorithm::ALL.iter().find(is_it).copied()
    }
}

/// How a window cuts bytes into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layout {
    /// The data of a round is split evenly into all chunks.
    Split = 0,
    /// Chunk c is a part of block c; blocks are one count apart.
    Blocks = 1,
}

/// The key of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The collective.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Whose plan it is.
    pub rank: u32,
    /// Ranks of the communicator.
    pub nranks: u32,
    /// Root, or peer of a point-to-point bundle; 0 otherwise.
    pub root: u32,
    /// Channels, at least 1.
    pub channels: u16,
}
