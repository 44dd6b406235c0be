//! Text from inputs: made harmless before it leaves the program, and the numbers in names.
//!
//! A name in a model, a cluster or a plan may contain any character. On a terminal some characters move the cursor,
//! change the direction of writing or are invisible; in Markdown some are markup; in a shell some run commands.

use std::borrow::Cow;

/// The text on one line, with every character visible. Control characters (including line ends), marks that change the
/// direction of writing, and characters without width or shape are escaped; everything else stays as it is.
///
/// ```
/// use stagewright_core::text::visible;
/// assert_eq!(visible("conv\u{1b}[2J\n"), r"conv\u{1b}[2J\n");
/// assert_eq!(visible("a\u{202e}b\u{200b}"), r"a\u{202e}b\u{200b}");
/// assert_eq!(visible("it's \"a\\b\", 模型, नमस्ते"), "it's \"a\\b\", 模型, नमस्ते");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The text with every character visible: like [`visible`], but line feeds stay as they are.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character != '\n' && is_hidden(character))
}

/// Stands for each number in the text of [`split_numbers`].
pub const NUMBER: char = '0';

/// Divides a name into its text, in which [`NUMBER`] stands for each number, and its numbers. Both are appended. A number of more
/// than 19 digits is a hash, of which the first 19 count.
///
/// ```
/// use stagewright_core::text::split_numbers;
/// let (mut text, mut numbers) = (String::new(), Vec::new());
/// split_numbers("decoder.layer.3.step17.hidden", &mut text, &mut numbers);
/// assert_eq!((text.as_str(), numbers.as_slice()), ("decoder.layer.0.step0.hidden", &[3, 17][..]));
/// ```
pub fn split_numbers(name: &str, text: &mut String, numbers: &mut Vec<u64>) {
    let mut rest = name;
    while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
        let digits = rest[start..].find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len() - start);
        text.push_str(&rest[..start]);
        text.push(NUMBER);
        numbers.push(rest[start..start + digits.min(19)].parse().unwrap_or(u64::MAX));
        rest = &rest[start + digits..];
    }
    text.push_str(rest);
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(2 * text.len());
    for character in text.chars() {
        match is_hidden(character) {
            true if matches!(character, '\0' | '\t' | '\n' | '\r') => shown.extend(character.escape_debug()),
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(character: char) -> bool {
    match character {
        ' '..='~' => false,
        // Unicode classes these as letters and marks, but they are invisible wherever text is shown.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}' => true,
        // The library escapes unprintable characters. It also escapes an accent, unless another character precedes it.
        _ => format!(".{character}").escape_debug().nth(1) == Some('\\'),
    }
}

/// The text with every character visible, and without effect as markup in a line or a table cell of Markdown.
///
/// ```
/// use stagewright_core::text::markdown;
/// assert_eq!(markdown("<b>|`x`[a](b)\n"), r"\<b>\|\`x\`[a\](b)\\n");
/// assert_eq!(markdown("*no* 2 * 3_a_b [2 of 3]"), r"\*no* 2 * 3_a_b [2 of 3]");
/// ```
pub fn markdown(text: &str) -> String {
    let text = visible(text);
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let after = rest.peek().copied().unwrap_or(' ');
        let is_markup = match character {
            '\\' | '`' | '<' | '&' | '|' | '$' => true,
            // Emphasis needs an opening mark; a mark before a space opens nothing, nor does an underscore within a
            // word.
            '*' | '~' => after != ' ',
            '_' => after != ' ' && !(before.is_alphanumeric() && after.is_alphanumeric()),
            // All other links in brackets need a separate line that gives their target.
            ']' => after == '(',
            _ => false,
        };
        if is_markup {
            shown.push('\\');
        }
        shown.push(character);
        before = character;
    }
    shown
}

/// The text with every character visible, for a cell of a table in LaTeX, which shows exactly this text in any encoding of its
/// fonts. The first character is no argument of the `\\` before it, marks do not join into others (`--`, `''`, `,,`), and spaces
/// in a row stay. Letters of other scripts stay as they are and need an engine that reads them.
///
/// ```
/// use stagewright_core::text::latex;
/// assert_eq!(latex("a_b & 5% of $x^2$ #1 {~}\n"), r"a\_b \& 5\% of \$x\textasciicircum{}2\$ \#1 \{\textasciitilde{}\}\textbackslash{}n");
/// assert_eq!(latex("3 ± 1 µs, 2×, x–y…"), r"3 $\pm$ 1 \textmu{}s, 2$\times$, x\textendash{}y\ldots{}");
/// assert_eq!(latex("[best] *--gap"), r"{[}best] *-{}-gap");
/// ```
pub fn latex(text: &str) -> String {
    let mut shown = String::with_capacity(2 * text.len());
    // Spaces at the start of a cell have no effect, like spaces after a space.
    let mut before = ' ';
    for (index, character) in visible(text).char_indices() {
        match character {
            // After `\\`, these are an optional argument and a star.
            '[' | '*' if index == 0 => shown.extend(['{', character, '}']),
            '-' | ',' if before == character => shown.extend(['{', '}', character]),
            ' ' if before == ' ' => shown.push_str(r"\ "),
            '#' | '$' | '%' | '&' | '_' | '{' | '}' => shown.extend(['\\', character]),
            '\\' => shown.push_str(r"\textbackslash{}"),
            '^' => shown.push_str(r"\textasciicircum{}"),
            '~' => shown.push_str(r"\textasciitilde{}"),
            '<' => shown.push_str(r"\textless{}"),
            '>' => shown.push_str(r"\textgreater{}"),
            '|' => shown.push_str(r"\textbar{}"),
            // The default encoding has the straight mark only in its typewriter font.
            '"' => shown.push_str("\\texttt{\"}"),
            '\'' => shown.push_str(r"\textquotesingle{}"),
            '`' => shown.push_str(r"\textasciigrave{}"),
            '±' => shown.push_str(r"$\pm$"),
            '×' => shown.push_str(r"$\times$"),
            'µ' => shown.push_str(r"\textmu{}"),
            '–' => shown.push_str(r"\textendash{}"),
            '…' => shown.push_str(r"\ldots{}"),
            other => shown.push(other),
        }
        before = character;
    }
    shown
}

/// A word of a command that users paste into a POSIX shell.
///
/// ```
/// use stagewright_core::text::quoted_word;
/// assert_eq!(quoted_word("--pins=it's"), r"'--pins=it'\''s'");
/// assert_eq!(quoted_word("8xa100:fp32@nvlink+1xepyc-7742"), "8xa100:fp32@nvlink+1xepyc-7742");
/// assert_eq!(quoted_word(""), "''");
/// ```
pub fn quoted_word(word: &str) -> Cow<'_, str> {
    let is_plain = |character: char| character.is_alphanumeric() || "_./:=@%+,-".contains(character);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// A path quoted as one word of a command that users paste into a POSIX shell.
///
/// ```
/// use stagewright_core::text::quoted;
/// assert_eq!(quoted("models/bert_l-3.json"), "models/bert_l-3.json");
/// assert_eq!(quoted("it's $(touch x).onnx"), r"'it'\''s $(touch x).onnx'");
/// assert_eq!(quoted("-rf"), "./-rf");
/// ```
pub fn quoted(path: &str) -> Cow<'_, str> {
    match path.starts_with('-') {
        true => Cow::Owned(quoted_word(&format!("./{path}")).into_owned()),
        false => quoted_word(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latex_shows_marks_as_they_are() {
        let shown = [
            ("[1pt] name", "{[}1pt] name"),
            ("*", "{*}"),
            ("* dp", "{*} dp"),
            ("a[1]*", "a[1]*"),
            ("-", "-"),
            ("a---b", "a-{}-{}-b"),
            ("a-–", r"a-\textendash{}"),
            ("``x''", r"\textasciigrave{}\textasciigrave{}x\textquotesingle{}\textquotesingle{}"),
            ("say \"x\"", "say \\texttt{\"}x\\texttt{\"}"),
            (",,x, y", ",{},x, y"),
            (" [a  b", r"\ [a \ b"),
            ("<<", r"\textless{}\textless{}"),
        ];
        for (text, expected) in shown {
            assert_eq!(latex(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_hidden_is_left_and_nothing_seen_is_changed() {
        for hidden in ('\0'..=char::MAX).filter(|&character| is_hidden(character)) {
            let text = format!("a{hidden}b");
            let shown = visible(&text);
            assert!(shown.starts_with("a\\") && shown.is_ascii(), "{shown}");
            assert_eq!(visible(&shown), shown, "an escape is seen");
        }
        for control in (0..0x20).chain(0x7f..0xa0) {
            assert!(char::from_u32(control).is_some_and(is_hidden), "{control:x}");
        }
        let marks = "\u{200b}\u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{ad}\u{feff}";
        for mark in marks.chars().chain(['\u{61c}', '\u{180e}', '\u{e0041}', '\u{fe0f}', '\u{3164}']) {
            assert!(is_hidden(mark), "{mark:?}");
        }
        for seen in ["e\u{301}tude", "ไม้ตรี", "हिन्दी", "שָׁלוֹם", "µs × 3 – █▒ …", "🎉", "\"'\\`"]
        {
            assert!(matches!(visible(seen), Cow::Borrowed(_)), "{seen}");
        }
        assert_eq!(visible_lines("a\nb\r\n"), "a\nb\\r\n");
    }
}
