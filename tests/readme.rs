//! The README's kernel table is the registry's; `WGATTN_UPDATE=1` rewrites it.

use std::path::Path;

const BEGIN: &str = "<!-- kernels: begin -->\n";
const END: &str = "<!-- kernels: end -->";

#[test]
fn the_kernel_table_is_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).expect("README.md can be read");
    let begin = text.find(BEGIN).expect("README.md has the table's beginning") + BEGIN.len();
    let end = text.find(END).expect("README.md has the table's end");
    let table = wgattn::kernels::markdown_table();
    if std::env::var_os("WGATTN_UPDATE").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..begin], &text[end..]))
            .expect("README.md can be written");
        return;
    }
    assert_eq!(&text[begin..end], table, "run WGATTN_UPDATE=1 cargo test --test readme");
}
