//! `libkolo.so.0`: kolo for C, and through C for Fortran and for everything else.
//!
//! Problem: what arrives here was written by somebody else, in a language without our checks.
//! A handle may be garbage or dead, a number no enumerator, a pointer null; and no panic may
//! unwind into the caller.
//!
//! Idea: every exported function goes through one [`guard`], which turns errors and panics into a
//! result code and keeps the sentence for `koloGetLastError`. A handle is a number that is looked
//! up, never an address that is followed ([`handle`]), so that a wrong one cannot crash.
//!
//! The doc comments of the exported items are the text of `include/kolo.h`, which cbindgen makes
//! from these files (`tests/header.rs` fails when it is stale); so they speak of C.
#![allow(non_camel_case_types, non_snake_case)]
// The contract of an exported function is its text in kolo.h.
#![allow(clippy::missing_safety_doc)]

pub mod types;

#[macro_use]
mod calls;

mod adopted;
pub mod collective;
pub mod comm;
mod comms;
pub mod error;
pub mod exact;
pub mod graph;
pub mod group;
pub mod launch;
mod memory;
pub mod message;
pub mod op;
pub mod request;
pub mod route;
pub mod setting;
pub mod stream;
mod streams;
pub mod table;
pub mod vector;

mod config;
#[cfg(test)]
mod ending_tests;
mod guard;
mod handle;
mod loud;
mod seat;
mod sentence;
mod words;
