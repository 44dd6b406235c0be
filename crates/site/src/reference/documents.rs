//! The documents that the program reads and writes: tables of their fields, from the JSON schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Result, SiteError};
use crate::files;
use crate::markdown::{cell, escaped};
use crate::page::Page;

/// Folder of the schemas.
const FOLDER: &str = "data/schema";

/// A page for all documents, and one for each schema.
pub(super) fn pages(root: &Path) -> Result<Vec<Page>> {
    let mut list = String::from(
        "# Documents\n\nThe files that the program reads and writes, field by field, as their JSON schemas describe them. \
         Times are in seconds and sizes in bytes. A document with an unknown field is rejected.\n\n\
         | document | contents | schema |\n| --- | --- | --- |\n",
    );
    let mut pages = Vec::new();
    for path in files::list(&root.join(FOLDER))? {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(name) = file.strip_suffix(".schema.json") else { continue };
        let wrong = |reason: String| SiteError::Schema { file: format!("{FOLDER}/{file}"), reason };
        let schema: Value =
            serde_json::from_str(&files::read(&path)?).map_err(|error| wrong(error.to_string()))?;
        let schema = Schema::new(&schema).map_err(&wrong)?;
        let title = title(name);
        let summary = cell(schema.description.lines().next().unwrap_or_default());
        let _ = writeln!(list, "| [{title}]({name}.md) | {summary} | [{file}](../../{FOLDER}/{file}) |");
        let text = schema.page(&title).map_err(&wrong)?;
        pages.push(Page::generated(format!("reference/documents/{name}.md"), text).nested());
    }
    pages.insert(0, Page::generated("reference/documents/README.md", list));
    Ok(pages)
}

/// `joint-plan` as a title: "Joint plan".
fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut characters = words.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// A JSON schema as schemars writes it.
struct Schema<'a> {
    description: &'a str,
    whole: &'a Map<String, Value>,
    parts: BTreeMap<&'a str, &'a Map<String, Value>>,
}

impl<'a> Schema<'a> {
    fn new(schema: &'a Value) -> std::result::Result<Self, String> {
        let whole = object(schema)?;
        let parts = whole.get("$defs").map(object).transpose()?;
        let parts = parts.into_iter().flatten().map(|(name, part)| Ok((&**name, object(part)?)));
        let parts: std::result::Result<_, String> = parts.collect();
        Ok(Schema { description: description(whole), whole, parts: parts? })
    }

    /// The page: the document, then the parts that it consists of.
    fn page(&self, title: &str) -> std::result::Result<String, String> {
        let mut text = format!("# {title}\n");
        section(self.whole, &mut text)?;
        for (name, part) in &self.parts {
            let _ = write!(text, "\n## {name}\n");
            section(part, &mut text)?;
        }
        Ok(text)
    }
}

fn object(value: &Value) -> std::result::Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{value} is not a schema"))
}

fn description(schema: &Map<String, Value>) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// The description of a type, and a table of its fields or of its values.
fn section(schema: &Map<String, Value>, text: &mut String) -> std::result::Result<(), String> {
    let _ = write!(text, "\n{}\n", escaped(description(schema)));
    if let Some(variants) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        let variants: std::result::Result<Vec<_>, _> = variants.iter().map(object).collect();
        let variants = variants?;
        if variants.iter().all(|variant| !variant.contains_key("properties")) {
            text.push_str("\n| value | meaning |\n| --- | --- |\n");
            for variant in variants {
                let _ = writeln!(text, "| {} | {} |", kind(variant)?, cell(description(variant)));
            }
            return Ok(());
        }
        for variant in variants {
            let _ = write!(text, "\n### {}\n", variant_name(variant)?);
            section(variant, text)?;
        }
        return Ok(());
    }
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        let _ = write!(text, "\nType: {}.\n", kind(schema)?);
        return Ok(());
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    text.push_str("\n| field | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for (name, field) in fields {
        let field = object(field)?;
        let default = match field.get("default") {
            _ if required.contains(&&**name) => "required".into(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let meaning = cell(description(field));
        let _ = writeln!(text, "| `{name}` | {} | {default} | {meaning} |", cell_of_type(field)?);
    }
    Ok(())
}

/// The name of a variant that is an object: the constant of its tag, or its only field.
fn variant_name(variant: &Map<String, Value>) -> std::result::Result<String, String> {
    let fields = variant.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut tags =
        fields.clone().filter_map(|(name, field)| Some(format!("`{name}`: `{}`", field.get("const")?)));
    let name = tags.next().or_else(|| fields.clone().next().map(|(name, _)| format!("`{name}`")));
    name.map_or_else(|| kind(variant), Ok)
}

fn cell_of_type(schema: &Map<String, Value>) -> std::result::Result<String, String> {
    Ok(kind(schema)?.replace('|', "\\|"))
}

/// A type in words, with links to the parts.
fn kind(schema: &Map<String, Value>) -> std::result::Result<String, String> {
    if let Some(value) = schema.get("const") {
        return Ok(format!("`{value}`"));
    }
    if let Some(part) = schema.get("$ref").and_then(Value::as_str) {
        let name = part.strip_prefix("#/$defs/").ok_or_else(|| format!("{part} is not in this schema"))?;
        return Ok(format!("[{name}](#{})", name.to_lowercase()));
    }
    if let Some(several) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
        let names: std::result::Result<Vec<String>, String> =
            several.iter().map(|schema| kind(object(schema)?)).collect();
        return Ok(names?.join(" or "));
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => return Err(format!("a type without a name: {}", Value::Object(schema.clone()))),
    };
    let words: std::result::Result<Vec<String>, String> =
        names.iter().map(|name| word(name, schema)).collect();
    Ok(words?.join(" or "))
}

/// A type by its name in the schema.
fn word(name: &str, schema: &Map<String, Value>) -> std::result::Result<String, String> {
    match name {
        "array" => {
            if let Some(items) = schema.get("prefixItems").and_then(Value::as_array) {
                let kinds: std::result::Result<Vec<String>, String> =
                    items.iter().map(|item| kind(object(item)?)).collect();
                return Ok(format!("({})", kinds?.join(", ")));
            }
            let items = schema.get("items").ok_or("an array without items")?;
            let count = schema.get("minItems").filter(|least| schema.get("maxItems") == Some(least));
            let count = count.map(|count| format!("{count} × ")).unwrap_or_default();
            Ok(format!("list of {count}{}", kind(object(items)?)?))
        }
        "object" => match schema.get("additionalProperties") {
            Some(Value::Object(values)) => Ok(format!("table of name to {}", kind(values)?)),
            _ => Ok("object".into()),
        },
        "boolean" | "integer" | "null" | "number" | "string" => Ok(name.into()),
        _ => Err(format!("an unknown type, {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_have_a_type_a_default_and_a_meaning() {
        let schema = json!({
            "description": "A thing.",
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "description": "Unique | name." },
                "links": { "type": "array", "items": { "$ref": "#/$defs/Link" }, "default": [] },
                "peaks": { "type": ["object", "null"], "additionalProperties": { "type": "number" } },
            },
            "$defs": { "Link": { "description": "A link.", "oneOf": [
                { "const": "fast", "type": "string", "description": "Quick." },
            ] } },
        });
        let page = Schema::new(&schema).and_then(|schema| schema.page("Thing")).expect("a schema");
        for line in [
            "| `name` | string | required | Unique \\| name. |",
            "| `links` | list of [Link](#link) | `[]` |  |",
            "| `peaks` | table of name to number or null |  |  |",
            "| `\"fast\"` | Quick. |",
        ] {
            assert!(page.lines().any(|other| other == line), "{line}\n{page}");
        }
    }

    #[test]
    fn an_unknown_type_is_an_error() {
        let schema = json!({ "properties": { "a": { "type": "tuple" } } });
        let page = Schema::new(&schema).and_then(|schema| schema.page("Thing"));
        assert_eq!(page, Err("an unknown type, tuple".into()));
    }
}
