//! The formats of hwloc's files, and what all of them have in common.

use super::xml_tree::XmlNode;

/// Which format a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XmlFormat {
    /// Read here.
    Two,
    /// Version 3, with kinds of devices as sets; read here too.
    Three,
    /// hwloc 1.x: to be rewritten by the library first.
    One,
}

/// The `<object>` elements directly inside.
pub(super) fn objects<'d, 'x>(node: XmlNode<'d, 'x>) -> impl Iterator<Item = XmlNode<'d, 'x>> {
    node.children().filter(|child| child.is("object"))
}
