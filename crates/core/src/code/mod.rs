//! Error codes and the text that users read about them.
//!
//! [`codes!`](crate::codes) declares the codes of a letter as an enum. The name of a variant is the code, the first
//! line of its doc comment is the title, and the rest is its text in Markdown. `data/errors.md`, which `--explain`
//! prints, is written from these enums, and a test of the program compares it with them. The number of a retired code
//! is not used again.
//!
//! Each enum is in the lowest crate that reports its codes; those below belong to the core. Errors of every crate
//! return a [`Code`], whatever the letter.

mod cluster;
mod graph;
mod problem;
mod schedule;

use std::fmt;
use std::ops::Deref;

pub use cluster::C::{self, *};
pub use graph::G::{self, *};
pub use problem::P::{self, *};
pub use schedule::T::{self, *};

/// A code of any letter.
#[derive(Clone, Copy)]
pub struct Code(&'static Entry);

/// A code and its text in `data/errors.md`.
#[derive(Debug)]
pub struct Entry {
    /// The code, such as `G004`.
    pub name: &'static str,
    /// Lines of the doc comment.
    #[doc(hidden)]
    pub lines: &'static [&'static str],
}

/// All codes of a letter.
#[derive(Debug)]
pub struct Letter {
    /// The letter.
    pub name: &'static str,
    /// Lines of the enum's doc comment: the subject, and for a family, whose codes have a line each, an introduction.
    #[doc(hidden)]
    pub lines: &'static [&'static str],
    /// The source file of the enum.
    pub file: &'static str,
    /// Entries in the order of the enum.
    pub entries: &'static [Entry],
}

impl Deref for Code {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.0
    }
}

impl Entry {
    /// The fault in a few words.
    pub fn title(&self) -> &'static str {
        title(self.lines)
    }

    /// Cause and remedy in Markdown.
    pub fn text(&self) -> String {
        text(self.lines)
    }
}

impl Letter {
    #[doc(hidden)]
    pub fn code(&'static self, index: usize) -> Code {
        Code(&self.entries[index])
    }

    /// Subject of the codes.
    pub fn subject(&self) -> &'static str {
        title(self.lines)
    }

    /// Introduction of a family; empty for other letters.
    pub fn text(&self) -> String {
        text(self.lines)
    }
}

fn title(lines: &[&'static str]) -> &'static str {
    lines.first().map_or("", |line| line.trim())
}

/// The text below the title. Examples are fenced in a doc comment, where they would otherwise run as tests, and
/// indented on the page.
fn text(lines: &[&'static str]) -> String {
    let mut is_example = false;
    let mut text = String::new();
    for line in lines.iter().skip(2).map(|line| line.strip_prefix(' ').unwrap_or(line)) {
        if line.starts_with("```") {
            is_example = !is_example;
            continue;
        }
        let indent = if is_example && !line.is_empty() { "    " } else { "" };
        text.extend([indent, line, "\n"]);
    }
    text
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Eq for Code {}

impl<Other: Copy + Into<Code>> PartialEq<Other> for Code {
    fn eq(&self, other: &Other) -> bool {
        self.name == (*other).into().name
    }
}

/// Tests and scripts refer to codes by name.
impl PartialEq<&str> for Code {
    fn eq(&self, other: &&str) -> bool {
        self.name == *other
    }
}

/// Declares the codes of a letter: an enum, its [`Letter`](crate::code::Letter) as the constant `LETTER`, and the
/// conversion into a [`Code`](crate::code::Code).
///
/// The doc comment of the enum begins with the subject of its codes. Examples are fenced as `text`.
///
/// ```
/// stagewright_core::codes! {
///     /// tea
///     pub enum T {
///         /// cold tea
///         ///
///         /// Nobody drank it in time. Make more.
///         T001,
///     }
/// }
///
/// let code = stagewright_core::code::Code::from(T::T001);
/// assert_eq!((code.name, code.title()), ("T001", "cold tea"));
/// assert_eq!(code.text(), "Nobody drank it in time. Make more.\n");
/// ```
#[macro_export]
macro_rules! codes {
    (
        #[doc = $subject:literal]
        $(#[doc = $about:literal])*
        pub enum $letter:ident {
            $( $(#[doc = $line:literal])+ $code:ident $(= $name:literal)?, )+
        }
    ) => {
        #[doc = concat!("Codes about", $subject, ".")]
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $letter {
            $( $(#[doc = $line])+ $code, )+
        }

        impl $letter {
            /// All codes of the letter.
            pub const LETTER: &'static $crate::code::Letter = &$crate::code::Letter {
                name: stringify!($letter),
                lines: &[$subject, $($about),*],
                file: file!(),
                entries: &[
                    $( $crate::code::Entry { name: $crate::codes!(@name $code $($name)?), lines: &[$($line),+] } ),+
                ],
            };
        }

        impl From<$letter> for $crate::code::Code {
            fn from(code: $letter) -> $crate::code::Code {
                $letter::LETTER.code(code as usize)
            }
        }
    };
    (@name $code:ident) => { stringify!($code) };
    (@name $code:ident $name:literal) => { $name };
}
