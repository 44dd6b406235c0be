//! Event-based reader of protobuf text.
//!
//! The language is that of protobuf.dev/reference/protobuf/textformat-spec without features that no dump of a
//! cost graph uses: extensions and `Any`, whose names are in brackets.

use crate::code::M006;
use crate::error::{At, InputError, Result};
use crate::text::end_of;

/// A parse event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Event<'a> {
    /// Start of a message in the named field.
    Open(&'a str),
    /// End of the innermost message.
    Close,
    /// A field with a value: a number, a name, or a string verbatim, with its quotes.
    Scalar(&'a str, &'a str),
    /// End of the text, with all messages closed.
    End,
}

/// A reader of protobuf text. Nesting takes a counter and no stack.
pub(super) struct Reader<'a> {
    label: &'a str,
    text: &'a str,
    at: usize,
    depth: usize,
    /// The field whose list of values is being read.
    list: Option<&'a str>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(label: &'a str, text: &'a str) -> Self {
        Reader { label, text, at: 0, depth: 0, list: None }
    }

    /// Returns the next event.
    pub(super) fn event(&mut self) -> Result<Event<'a>> {
        loop {
            self.skip_space();
            let Some(next) = self.peek() else {
                return match (self.depth, self.list) {
                    (0, None) => Ok(Event::End),
                    _ => Err(self.fault(self.at, "the text ends inside a message")),
                };
            };
            match next {
                b',' | b';' => self.at += 1,
                b']' if self.list.is_some() => {
                    self.at += 1;
                    self.list = None;
                }
                b'}' | b'>' if self.list.is_none() && self.depth > 0 => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(Event::Close);
                }
                _ => {
                    if let Some(event) = self.field()? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Skips the message that was just opened.
    pub(super) fn skip(&mut self) -> Result<()> {
        let outside = self.depth - 1;
        while self.depth > outside {
            self.event()?;
        }
        Ok(())
    }

    /// Reads a field; `None` at the start of a list.
    fn field(&mut self) -> Result<Option<Event<'a>>> {
        let name = match self.list {
            Some(name) => name,
            None => {
                let name = self.word();
                if name.is_empty() {
                    return Err(self.fault(self.at, "expected a field"));
                }
                self.skip_space();
                let colon = self.peek() == Some(b':');
                if colon {
                    self.at += 1;
                    self.skip_space();
                }
                match self.peek() {
                    Some(b'{' | b'<') => {}
                    Some(b'[') if colon => {
                        self.at += 1;
                        self.list = Some(name);
                        return Ok(None);
                    }
                    _ if colon => {}
                    _ => {
                        return Err(self.fault(self.at, "expected a value, after a colon or in braces"));
                    }
                }
                name
            }
        };
        match self.peek() {
            Some(b'{' | b'<') => {
                if self.list.is_some() {
                    return Err(self.fault(self.at, "lists of messages are not part of a cost graph"));
                }
                self.at += 1;
                self.depth += 1;
                Ok(Some(Event::Open(name)))
            }
            Some(b'"' | b'\'') => Ok(Some(Event::Scalar(name, self.string()?))),
            _ => {
                let value = self.word();
                if value.is_empty() {
                    return Err(self.fault(self.at, "expected a value"));
                }
                Ok(Some(Event::Scalar(name, value)))
            }
        }
    }

    /// Reads a name or a number.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-')))
            .unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn string(&mut self) -> Result<&'a str> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let quote = bytes[start];
        let mut position = start + 1;
        loop {
            match bytes.get(position) {
                Some(b'\\') => position += 2,
                Some(&byte) if byte == quote => break,
                None | Some(b'\n') => return Err(self.fault(start, "a string does not end on its line")),
                Some(_) => position += 1,
            }
        }
        self.at = position + 1;
        Ok(&self.text[start..self.at])
    }

    fn skip_space(&mut self) {
        while let Some(next) = self.peek() {
            if next == b'#' {
                let rest = &self.text[self.at..];
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if next.is_ascii_whitespace() {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Position of a slice of the text.
    pub(super) fn place(&self, part: &str) -> At {
        self.position((part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize))
    }

    fn position(&self, offset: usize) -> At {
        end_of(self.text.get(..offset).unwrap_or_default())
    }

    fn fault(&self, offset: usize, message: &str) -> InputError {
        let help = "give a CostGraphDef as protobuf text; check that the file is complete";
        InputError::new(M006, self.label, self.position(offset), message, help)
    }
}

/// Contents of a quoted string with simple escapes replaced and others kept; `None` if the text is not
/// quoted.
pub(super) fn unquoted(string: &str) -> Option<String> {
    let inner = ['"', '\''].iter().find_map(|&quote| string.strip_prefix(quote)?.strip_suffix(quote))?;
    Some(inner.replace("\\\"", "\"").replace("\\'", "'").replace("\\\\", "\\"))
}
