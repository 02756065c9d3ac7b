//! The README's tables are the program's lists; `WGATTN_UPDATE=1` rewrites them.

use std::path::Path;

/// Compares what stands between two marks of the README with a table, or writes it there.
fn stands_in_the_readme(name: &str, table: &str) {
    let (first, last) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(&path).expect("README.md can be read");
    let begin = text.find(&first).expect("README.md has the table's beginning") + first.len();
    let end = text.find(&last).expect("README.md has the table's end");
    if std::env::var_os("WGATTN_UPDATE").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..begin], &text[end..]))
            .expect("README.md can be written");
        return;
    }
    assert_eq!(&text[begin..end], table, "run WGATTN_UPDATE=1 cargo test --test readme -- --test-threads=1");
}

#[test]
fn the_kernel_table_is_the_registry() {
    stands_in_the_readme("kernels", &wgattn::kernels::markdown_table());
}

#[cfg(feature = "explorer")]
#[test]
fn the_table_of_views_is_the_list() {
    stands_in_the_readme("views", &wgattn::explorer::views::markdown_table());
}
