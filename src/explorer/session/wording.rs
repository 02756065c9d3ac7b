//! What is wrong with a session's text, in words for people: the place by line, column and field, what was expected there, and
//! what was found.

use serde_json::error::Category;

/// One line about an error of the parser in `text`.
pub(super) fn of(text: &str, error: &serde_json::Error) -> String {
    if text.trim().is_empty() {
        return "the file is empty".into();
    }
    let whole = error.to_string();
    // The place is told in our own words.
    let message = whole.split_once(" at line ").map_or(whole.as_str(), |(message, _)| message);
    let (line, column) = (error.line(), error.column());
    if error.classify() == Category::Eof {
        return format!(
            "it ends in line {line} before it is complete: a closing quote or bracket is missing"
        );
    }
    let before = up_to(text, line, column);
    let field = match field_at(before) {
        field if field.is_empty() => String::new(),
        field => format!(" ({field})"),
    };
    format!("line {line}, column {column}{field}: {}", said(message))
}

/// The text up to a place, whose line and column, in bytes, are counted from 1.
fn up_to(text: &str, line: usize, column: usize) -> &str {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut end = start.saturating_add(column).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The field that JSON text breaks off in: `document.settings.compute.heads`, with `[2]` for the third of a list.
fn field_at(text: &str) -> String {
    /// An object with the key it is at, or a list with the number of the element.
    enum Level {
        Object(String),
        List(usize),
    }
    let mut levels: Vec<Level> = Vec::new();
    // The last text in quotes: a colon behind it makes it a key.
    let (mut quoted, mut inside, mut escaped) = (String::new(), false, false);
    for letter in text.chars() {
        if inside {
            match letter {
                _ if std::mem::take(&mut escaped) => quoted.push(letter),
                '\\' => escaped = true,
                '"' => inside = false,
                other => quoted.push(other),
            }
            continue;
        }
        let depth = levels.len();
        match (letter, levels.last_mut()) {
            ('"', _) => {
                quoted.clear();
                inside = true;
            }
            (':', Some(Level::Object(key))) => key.clone_from(&quoted),
            (',', Some(Level::List(index))) => *index += 1,
            ('{', _) => levels.push(Level::Object(String::new())),
            ('[', _) => levels.push(Level::List(0)),
            // An error is told at the end of what is wrong: what was opened last is still meant.
            ('}' | ']', _) if depth > 1 => {
                levels.pop();
            }
            _ => {}
        }
    }
    let mut field = String::new();
    for level in &levels {
        match level {
            Level::Object(key) if key.is_empty() => {}
            Level::Object(key) if field.is_empty() => field.push_str(key),
            Level::Object(key) => {
                field.push('.');
                field.push_str(key);
            }
            Level::List(_) if field.is_empty() => {}
            Level::List(index) => field.push_str(&format!("[{index}]")),
        }
    }
    field
}

/// What the parser says, as expectation and finding.
fn said(message: &str) -> String {
    let values = ["invalid type: ", "invalid value: ", "invalid length "];
    if let Some(rest) = values.iter().find_map(|start| message.strip_prefix(start))
        && let Some((got, expected)) = rest.split_once(", expected ")
    {
        return format!("expected {}, got {}", kind(expected), kind(got));
    }
    if let Some((got, expected)) =
        message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "))
    {
        return format!("expected {expected}, got {got}");
    }
    match message {
        "trailing comma" => "there is a comma too many before the closing bracket".into(),
        "trailing characters" => "there is more text behind the end of the session".into(),
        "key must be a string" => "expected the name of a field in double quotes".into(),
        "expected value" | "expected ident" => {
            "expected a value: a number, a text in double quotes, true, false, null, { or [".into()
        }
        other => other.replace("ident", "name"),
    }
}

/// A type or a value, as people call it.
fn kind(what: &str) -> String {
    let (word, value) = what.split_once(' ').unwrap_or((what, ""));
    match (word, value) {
        ("struct" | "map", _) => "fields in braces".into(),
        ("enum", _) => "one of the names that a saved session has there".into(),
        ("u8" | "u16" | "u32" | "u64" | "usize", _) => "a whole number of 0 or more".into(),
        ("i32" | "i64", _) => "a whole number".into(),
        ("f32" | "f64", _) => "a number".into(),
        ("a", "string") => "a text in double quotes".into(),
        ("a", "sequence") | ("sequence", _) => "a list in square brackets".into(),
        ("a", "boolean") => "true or false".into(),
        ("null" | "unit", _) => "null".into(),
        ("integer" | "boolean" | "string", value) if !value.is_empty() => value.into(),
        ("floating", value) => value.trim_start_matches("point ").into(),
        _ => what.into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::explorer::session::Session;

    #[test]
    fn errors_say_where_and_what_was_expected() {
        let version = "{\n\"version\": 1,\n";
        for (text, expected) in [
            ("", "the file is empty"),
            (version, "before it is complete"),
            (
                &format!("{version}\"open_views\": 3}}"),
                "line 3, column 15 (open_views): expected a list in square brackets, got `3`",
            ),
            (
                &format!("{version}\"document\": {{\"query\": [1, \"x\"]}}}}"),
                "(document.query[1]): expected a whole number of 0 or more, got \"x\"",
            ),
            (
                &format!("{version}\"theme\": \"Drak\"}}"),
                "(theme): expected one of `System`, `Dark`, `Light`, got `Drak`",
            ),
            (
                &format!("{version}\"theme\": \"Dark\",}}"),
                "line 3, column 17 (theme): there is a comma too many",
            ),
            (
                &format!("{version}\"document\": {{\"settings\": {{\"look\": {{\"log\": 1}}}}}}}}"),
                "(document.settings.look.log): expected true or false, got `1`",
            ),
        ] {
            let error = serde_json::from_str::<Session>(text).expect_err("damaged");
            let told = super::of(text, &error);
            assert!(told.contains(expected), "{text}: {told}");
            assert!(!told.contains('\n'), "{told}");
        }
    }
}
