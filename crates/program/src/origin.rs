//! The origin of a plan: the version, the date and the command line.
//!
//! With `SOURCE_DATE_EPOCH`, the date is that number of seconds after 1970, so that the same command writes the same
//! document again (<https://reproducible-builds.org/specs/source-date-epoch>).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stagewright::code::U001;
use stagewright::core::document::OriginDocument;
use stagewright::text::quoted_word;

use super::error::{CliError, Result};

/// Environment variable with the date, in seconds since 1970.
const DATE: &str = "SOURCE_DATE_EPOCH";

/// Last second of the year 9999, the last year that RFC 3339 can write.
const LAST: u64 = 253_402_300_799;

/// The origin of a plan that is made now.
///
/// # Errors
/// If `SOURCE_DATE_EPOCH` is not a number of seconds (U001).
pub(crate) fn origin() -> Result<OriginDocument> {
    let date = date(std::env::var_os(DATE).map(|text| text.to_string_lossy().into_owned()).as_deref())?;
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    Ok(OriginDocument { date: Some(date), command: Some(command(words)), ..OriginDocument::of_library() })
}

/// The date in UTC: the given one, or else the present one.
fn date(given: Option<&str>) -> Result<String> {
    let time = match given {
        None => SystemTime::now(),
        Some(text) => {
            let seconds = text.parse().ok().filter(|seconds| *seconds <= LAST).ok_or_else(|| {
                CliError::new(U001, format!("`{text}` is not a number of seconds since 1970"))
                    .at(DATE)
                    .help("correct the environment variable, or unset it for the present date")
            })?;
            UNIX_EPOCH + Duration::from_secs(seconds)
        }
    };
    Ok(humantime::format_rfc3339_seconds(time).to_string())
}

/// A command line of this program with the given arguments, quoted for a shell.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let words = arguments.map(|word| quoted_word(&word).into_owned());
    ["stagewright".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_date_is_written_as_in_rfc_3339() {
        let given = |text: &str| date(Some(text)).ok();
        assert_eq!(given("0").as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(given("1709210096").as_deref(), Some("2024-02-29T12:34:56Z"));
        assert_eq!(given(&LAST.to_string()).as_deref(), Some("9999-12-31T23:59:59Z"));
        for wrong in ["", "-1", "1.5", "today", "253402300800"] {
            assert_eq!(given(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_command_can_be_given_to_a_shell_again() {
        let words = ["plan", "my model.json", "--pins=it's", "", "$HOME", "8xa100:fp32@nvlink+1xepyc-7742"];
        let expected =
            r"stagewright plan 'my model.json' '--pins=it'\''s' '' '$HOME' 8xa100:fp32@nvlink+1xepyc-7742";
        assert_eq!(command(words.map(str::to_owned).into_iter()), expected);
    }
}
