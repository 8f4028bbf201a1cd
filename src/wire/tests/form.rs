use serde_json::json;

use super::*;

fn read(text: &str) -> Decoded {
    decode(&Decoder::Form, "application/x-www-form-urlencoded", "", text.as_bytes(), true, &Bounds::default())
}

#[test]
fn a_name_once_is_a_value_and_twice_is_all_of_them() {
    assert_eq!(
        read("type=stream&to=dev+ops&content=a%26b%0Ac&label%5B%5D=x&label[]=y&empty&=v&&"),
        Decoded::Ready(tree(json!({
            "type": "stream", "to": "dev ops", "content": "a&b\nc", "label[]": ["x", "y"], "empty": "", "": "v",
        })))
    );
    assert_eq!(read("action=read&action=delete"), Decoded::Ready(tree(json!({"action": ["read", "delete"]}))));
    assert_eq!(read("ü=é"), Decoded::Ready(tree(json!({"ü": "é"}))));
    assert_eq!(read(""), Decoded::Ready(tree(json!({}))));
}

#[test]
fn what_servers_cut_differently_is_unreadable() {
    for text in ["a=1;b=2", "a=%", "a=%zz", "a=%ff", "a=\u{1}", "a=1\nb=2", "a=%ed%a0%80"] {
        failure(read(text));
    }
    failure(decode(&Decoder::Form, "x; charset=iso-8859-1", "", b"a=1", true, &Bounds::default()));
}

#[test]
fn paths_and_bounds_hold_for_forms_too() {
    let read = |paths: &[&str], max_nodes| {
        decode(&Decoder::Form, "", "", b"a=1&b=2&a=3&_method=DELETE", true, &Bounds { max_nodes, ..bounds(paths) })
    };
    assert_eq!(read(&["a"], 3), Decoded::Ready(tree(json!({"a": ["1", "3"], "_method": "DELETE"}))));
    assert_eq!(read(&[], 3), Decoded::Truncated);
}
