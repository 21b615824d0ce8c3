//! Who may enter: secrets, and proofs that both ends of a connection know one.
//!
//! **Problem.** Ranks of a job meet by ports that every user of a cluster can reach. Who connects
//! may be a rank, a scanner or somebody who wants to read along, and an address says nothing of
//! that.
//!
//! **Idea.** Ranks share a secret, and neither end ever says it: each proves that it knows it.
//! Until the other has done so it is a *guest*, who costs little and delays nobody. From the same
//! secret follow the keys of what is said later.
//!
//! - What is shared: [`secret`]; which of several the ranks use: [`secrets`], [`munge`].
//! - How it is proven: [`proof`]; by whoever calls: [`knock`]; by whoever listens: [`door`].
//! - What follows on a connection: [`seal`].
//!
//! Everything here is told what it needs: it knows neither settings nor sockets.
//!
//! **Terms.** *Secret*: 32 bytes that only ranks of one job have. *Offer*: the kinds of secrets
//! that a caller could use. *Hello*, *answer*, *confirmation*: the three messages of a proof.
//! *Door*, *guest*: a listener, and one who has connected and has not yet proven that he may
//! enter. *Seal*: what makes a frame unreadable and unchangeable for others.
//!
//! Reference: RFC 2104 (HMAC), RFC 8439 (ChaCha20-Poly1305), munge(7).

pub mod door;
pub mod knock;
pub(crate) mod munge;
pub mod proof;
pub(crate) mod seal;
pub(crate) mod secret;
pub(crate) mod secrets;

pub use secrets::check_file as check_secret_file;
