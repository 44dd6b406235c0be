//! Names from files, made safe for display.

use stagewright_core::text;

/// Maximum length of a displayed name, in characters.
const LONGEST: usize = 240;
/// Characters of [`LONGEST`] taken from the end of a long name, which is where long names differ.
const END: usize = 80;

/// A name in which every character is visible. The middle of a very long name is left out.
pub(super) fn visible(name: &str) -> String {
    // A name has at least as many bytes as characters, so the characters of most names are not counted.
    let characters = if name.len() > LONGEST { name.chars().count() } else { 0 };
    if characters <= LONGEST {
        return text::visible(name).into_owned();
    }
    let begin: String = name.chars().take(LONGEST - END).collect();
    let end: String = name.chars().skip(characters - END).collect();
    text::visible(&format!("{begin}…{end}")).into_owned()
}

/// Byte offset of the last part of a name, which follows the last separator that does not end the name.
pub(super) fn last_part(name: &str) -> usize {
    let Some((end, _)) = name.char_indices().next_back() else { return 0 };
    name[..end].rfind(is_separator).map_or(0, |separator| separator + 1)
}

/// Byte offset of an operator's title within its name. The title is the last part of the name, preceded by the part
/// before it if the last is a number, as in `layer.3`.
pub(super) fn title(name: &str) -> usize {
    let last = last_part(name);
    let is_number = name[last..].bytes().all(|byte| byte.is_ascii_digit());
    if is_number && last > 0 { last_part(&name[..last]) } else { last }
}

/// Whether a character separates the levels of a name.
pub(super) fn is_separator(character: char) -> bool {
    matches!(character, '.' | '/')
}
