//! Text tables for the terminal and for Markdown.
//!
//! A table that is wider than the terminal is reduced in this order: bars shrink, then are dropped; names lose their
//! middle and texts wrap between words; details are dropped. If it is still too wide, every row becomes a block with one
//! line per column.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, Width};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::wrap::{GAP, borderless, facts, finish};
use stagewright_core::text::{latex, markdown, visible};

/// Mark of the best figure of a table, with which its cell begins. LaTeX sets such a figure in bold instead.
pub const BEST: &str = "* ";

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Names that a user types, left-aligned and never shortened.
    Keys,
    /// Names, shortened in the middle if space is short.
    Names,
    /// Texts, left-aligned and wrapped between words.
    Words,
    /// Figures, right-aligned.
    Figures,
    /// Figures, right-aligned, that are dropped if space is short, those to the left first.
    Details,
    /// Bars, a visual aid only: they shrink or are dropped.
    Bars,
}

impl Column {
    /// Width in characters below which the column is not narrowed.
    fn least(self) -> usize {
        match self {
            Column::Names | Column::Words => 12,
            Column::Keys | Column::Figures | Column::Details => usize::MAX,
            Column::Bars => 6,
        }
    }
}

/// A table of texts. Every text is on one line, with all of its characters visible.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    columns: Vec<(String, Column)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Creates a table without rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Column)>) -> Grid {
        let columns =
            columns.into_iter().map(|(name, column)| (visible(name).into_owned(), column)).collect();
        Grid { columns, rows: Vec::new() }
    }

    /// Creates a table without rows, from the headings of its columns by type.
    pub fn of(columns: &[(Column, &[&str])]) -> Grid {
        Grid::new(columns.iter().flat_map(|&(column, names)| names.iter().map(move |&name| (name, column))))
    }

    /// Adds a row with one cell per column.
    pub fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        self.rows.push(texts.into_iter().map(|text| visible(&text).into_owned()).collect());
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table for a terminal of `width` characters, or at its natural width if `None`.
    pub fn text(&self, width: Option<u16>) -> String {
        let natural: Vec<usize> = (0..self.columns.len()).map(|column| self.natural(column)).collect();
        match width {
            None => self.table(&natural, &natural),
            Some(width) => match self.fit(&natural, width.into()) {
                Some(widths) => self.table(&natural, &widths),
                None => self.blocks(width),
            },
        }
    }

    /// The characters of the widest cell of a column.
    fn natural(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).chain([&self.columns[column].0]);
        cells.map(|text| text.width()).max().unwrap_or(0)
    }

    /// The characters to which a column may be narrowed.
    fn least(&self, index: usize) -> usize {
        let (heading, column) = &self.columns[index];
        let least = column.least().max(heading.width());
        match column {
            Column::Words => {
                let words =
                    self.rows.iter().filter_map(|row| row.get(index)).flat_map(|text| text.split(' '));
                words.map(|word| word.width()).max().unwrap_or(0).max(least)
            }
            _ => least,
        }
    }

    /// Column widths of a table at most `width` characters wide, 0 for dropped columns. `None` if `width` is too small.
    fn fit(&self, natural: &[usize], width: usize) -> Option<Vec<usize>> {
        let details = self.columns.iter().enumerate().filter(|(_, (_, column))| *column == Column::Details);
        let details: Vec<usize> = details.map(|(index, _)| index).collect();
        (0..=details.len()).find_map(|count| {
            let mut widths = natural.to_vec();
            details[..count].iter().for_each(|&index| widths[index] = 0);
            self.narrowed(widths, width)
        })
    }

    /// The widths, reduced to a table at most `width` characters wide without dropping details.
    fn narrowed(&self, mut widths: Vec<usize>, width: usize) -> Option<Vec<usize>> {
        self.narrow(&mut widths, width, &[Column::Bars]);
        if row_width(&widths) > width {
            let bars =
                self.columns.iter().zip(&mut widths).filter(|((_, column), _)| *column == Column::Bars);
            bars.for_each(|(_, width)| *width = 0);
        }
        self.narrow(&mut widths, width, &[Column::Names, Column::Words]);
        (row_width(&widths) <= width).then_some(widths)
    }

    /// Narrows the widest column whose type is in `giving` until a row fits or no such column can be narrowed further.
    fn narrow(&self, widths: &mut [usize], width: usize, giving: &[Column]) {
        let least: Vec<usize> = (0..self.columns.len()).map(|index| self.least(index)).collect();
        while row_width(widths) > width {
            let shrinkable = self
                .columns
                .iter()
                .enumerate()
                .filter(|(index, (_, column))| giving.contains(column) && widths[*index] > least[*index]);
            let Some((widest, _)) = shrinkable.max_by_key(|(index, _)| widths[*index]) else { return };
            widths[widest] -= 1;
        }
    }

    /// Formats a table with the given column widths, each at most its natural width.
    fn table(&self, natural: &[usize], widths: &[usize]) -> String {
        let mut table = borderless(None);
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&index| widths[index] > 0).collect();
        table.set_header(shown.iter().map(|&index| Cell::new(&self.columns[index].0)).collect::<Vec<_>>());
        for row in &self.rows {
            let cells = shown.iter().map(|&index| {
                match (self.columns[index].1, row.get(index).map_or("", String::as_str)) {
                    (Column::Names, text) => Cell::new(shortened(text, widths[index])),
                    (Column::Keys | Column::Words, text) => Cell::new(text),
                    (Column::Figures | Column::Details, text) => {
                        Cell::new(text).set_alignment(CellAlignment::Right)
                    }
                    (Column::Bars, text) => Cell::new(scaled(text, natural[index], widths[index])),
                }
            });
            table.add_row(cells.collect::<Vec<_>>());
        }
        for (column, &index) in
            table.column_iter_mut().zip(&shown).filter(|(_, index)| widths[**index] < natural[**index])
        {
            let width = widths[index] as u16 + GAP;
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        finish(table)
    }

    /// Formats every row as a block of lines, each with a column heading and its cell.
    fn blocks(&self, width: u16) -> String {
        let block = |row: &Vec<String>| {
            let cells = self.columns.iter().zip(row);
            let told = cells.filter(|((_, column), text)| *column != Column::Bars && !text.is_empty());
            facts(told.map(|((heading, _), text)| (heading.as_str(), text.clone())), Some(width))
        };
        self.rows.iter().map(block).collect::<Vec<_>>().join("\n")
    }

    /// Formats the table as Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|(name, _)| markdown(name)).collect());
        let rule = |column: &Column| match column {
            Column::Figures | Column::Details => "---:".to_owned(),
            Column::Keys | Column::Names | Column::Words | Column::Bars => "---".to_owned(),
        };
        text.push_str(&line(self.columns.iter().map(|(_, column)| rule(column)).collect()));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|cell| markdown(cell)).collect()));
        }
        text
    }

    /// Formats the table as LaTeX with the rules of `booktabs`, on one line per row. With `is_grouped`, the rows of one
    /// first cell form a group: the cell is written once, and a rule separates the groups.
    pub fn latex(&self, is_grouped: bool) -> String {
        let alignment = self.columns.iter().map(|(_, column)| match column {
            Column::Figures | Column::Details => 'r',
            Column::Keys | Column::Names | Column::Words | Column::Bars => 'l',
        });
        let line = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let headings = self.columns.iter().map(|(name, _)| latex(name)).collect();
        let mut text = format!(
            "\\begin{{tabular}}{{{}}}\n    \\toprule\n{}    \\midrule\n",
            alignment.collect::<String>(),
            line(headings)
        );
        let mut group: Option<&String> = None;
        for row in &self.rows {
            let is_in_group = is_grouped && group.is_some() && group == row.first();
            if is_grouped && group.is_some() && !is_in_group {
                text.push_str("    \\midrule\n");
            }
            group = row.first();
            let cell = |(index, cell): (usize, &String)| match cell.strip_prefix(BEST) {
                _ if index == 0 && is_in_group => String::new(),
                Some(best) if self.columns[index].1 == Column::Figures => {
                    format!("\\textbf{{{}}}", latex(best))
                }
                _ => latex(cell),
            };
            text.push_str(&line(row.iter().enumerate().map(cell).collect()));
        }
        text + "    \\bottomrule\n\\end{tabular}\n"
    }
}

/// Width of a row with the given column widths.
fn row_width(widths: &[usize]) -> usize {
    let gap = usize::from(GAP);
    widths.iter().filter(|&&width| width > 0).map(|width| width + gap).sum::<usize>().saturating_sub(gap)
}

/// Shortens a name to at most `width` characters by cutting out its middle.
fn shortened(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = beginning(name.chars(), kept.div_ceil(2));
    let tail = beginning(name.chars().rev(), kept - head.iter().filter_map(|it| it.width()).sum::<usize>());
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

/// Longest prefix of a text that fits into `room` characters.
fn beginning(text: impl Iterator<Item = char>, room: usize) -> Vec<char> {
    let mut taken = 0;
    let fits = |character: &char| {
        taken += character.width().unwrap_or(0);
        taken <= room
    };
    text.take_while(fits).collect()
}

/// Scales a bar from column width `from` to the narrower width `to`.
fn scaled(bar: &str, from: usize, to: usize) -> String {
    let end = |count: usize| (count * to + from / 2) / from.max(1);
    let blocks = bar.chars().enumerate();
    blocks.flat_map(|(index, block)| std::iter::repeat_n(block, end(index + 1) - end(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Grid {
        let mut grid = Grid::new([("solver", Column::Names), ("value", Column::Figures)]);
        grid.row(["a|b\nc".into(), "1 ms".into()]);
        grid.row(["dp".into(), "20 ms".into()]);
        grid
    }

    fn devices() -> Grid {
        let columns = [
            ("device", Column::Names),
            ("load", Column::Figures),
            ("note", Column::Words),
            ("", Column::Bars),
        ];
        let mut grid = Grid::new(columns);
        grid.row([
            "accelerator-of-the-first-rack-0".into(),
            "1.2345 ms".into(),
            "fits".into(),
            "█".repeat(24),
        ]);
        grid.row(["acc1".into(), "20 ms".into(), "does not fit".into(), "█".repeat(6) + &"▒".repeat(6)]);
        grid
    }

    #[test]
    fn cells_of_markdown_stay_in_their_row() {
        let text = example().markdown();
        assert_eq!(text, "| solver | value |\n| --- | ---: |\n| a\\|b\\\\nc | 1 ms |\n| dp | 20 ms |\n");
    }

    #[test]
    fn latex_has_the_best_in_bold_and_a_rule_between_groups() {
        let mut grid = Grid::of(&[(Column::Names, &["model", "solver"]), (Column::Figures, &["value"])]);
        for (model, solver, value) in [("a_1", "* dp", "* 1 ms"), ("a_1", "x", "10%"), ("b", "dp", "")] {
            grid.row([model, solver, value].map(str::to_owned));
        }
        let rows = [
            r"\begin{tabular}{llr}",
            r"    \toprule",
            r"    model & solver & value \\",
            r"    \midrule",
            r"    a\_1 & {*} dp & \textbf{1 ms} \\",
            r"     & x & 10\% \\",
            r"    \midrule",
            r"    b & dp &  \\",
            r"    \bottomrule",
            r"\end{tabular}",
        ];
        assert_eq!(grid.latex(true).lines().collect::<Vec<_>>(), rows);
        assert!(grid.latex(false).contains(r"    a\_1 & x & 10\% \\"));
    }

    #[test]
    fn bars_give_way_first_then_names_then_the_table_itself() {
        let lines = |width| devices().text(width).lines().map(str::to_owned).collect::<Vec<_>>();
        let whole = lines(None);
        let full = whole[1].chars().count();
        assert_eq!(lines(Some(full as u16)), whole);
        let shrunk = lines(Some(full as u16 - 12));
        assert!(shrunk[1].ends_with(&format!("  {}", "█".repeat(12))), "{shrunk:?}");
        assert!(shrunk[2].ends_with("  ███▒▒▒"), "{shrunk:?}");
        let bare = lines(Some(full as u16 - 20));
        assert!(!bare.concat().contains('█') && bare.concat().contains("accelerator-of-the-first-rack-0"));
        let short = lines(Some(40));
        assert!(short[1].starts_with("acceler…-rack-0  1.2345 ms  fits"), "{short:?}");
        let blocks = devices().text(Some(24));
        assert_eq!(blocks.lines().count(), 7 + 1, "{blocks}");
        assert!(blocks.ends_with("device  acc1\nload    20 ms\nnote    does not fit\n"), "{blocks}");
    }

    #[test]
    fn no_terminal_is_overrun() {
        let mut grid = devices();
        grid.row(["名".repeat(40), "3 ms".into(), "words ".repeat(30), String::new()]);
        grid.row(["x".repeat(200), "1e300 s".into(), "y".repeat(90), "▒".repeat(24)]);
        for width in 20..240 {
            let text = grid.text(Some(width));
            assert!(text.lines().all(|line| line.width() <= width.into()), "{width}\n{text}");
        }
        assert!(grid.text(None).lines().any(|line| line.width() > 300));
    }

    #[test]
    fn keys_are_whole_and_texts_are_broken_between_words() {
        let mut grid = Grid::of(&[(Column::Keys, &["key"]), (Column::Words, &["hardware"])]);
        let (key, link) = ("two-dgx-a100-servers", "docs.nvidia.com/dgx/dgxb200-user-guide");
        grid.row([key.into(), format!("Eight of them behind a switch, as {link} says.")]);
        let narrowest = key.len() + usize::from(GAP) + link.len();
        for width in narrowest - 8..narrowest + 60 {
            let text = grid.text(Some(width as u16));
            assert!(text.contains(key) && text.contains(link), "{width}\n{text}");
            assert_eq!(
                text.starts_with("key                   hardware"),
                width >= narrowest,
                "{width}\n{text}"
            );
        }
    }

    #[test]
    fn details_are_dropped_one_by_one_and_only_if_texts_are_at_their_narrowest() {
        let mut grid = Grid::of(&[
            (Column::Keys, &["name"]),
            (Column::Details, &["operators", "devices"]),
            (Column::Words, &["objective"]),
        ]);
        grid.row(["llama-3-8b".into(), "1081".into(), "4".into(), "the schedule and microbatches".into()]);
        let heading = |width| grid.text(Some(width)).lines().next().map(str::to_owned).expect("a heading");
        let narrowest = "llama-3-8b  operators  devices  microbatches".len() as u16;
        assert_eq!(heading(narrowest), "name        operators  devices  objective");
        assert_eq!(heading(narrowest - 1), "name        devices  objective");
        assert_eq!(heading(narrowest - 12), "name        objective");
        assert!(grid.text(Some(narrowest - 20 - 1)).contains("operators  1081\n"), "blocks have everything");
    }

    #[test]
    fn the_ends_of_a_name_are_kept() {
        assert_eq!(shortened("decoder.layer.17.attention", 12), "decode…ntion");
        assert_eq!(shortened("decoder", 7), "decoder");
        assert_eq!(shortened("decoder", 1), "…");
        assert_eq!(shortened("名前名前名前", 8), "名前…前");
    }
}
