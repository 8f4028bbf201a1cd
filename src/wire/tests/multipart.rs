use serde_json::json;

use super::*;

const FORM: &str = "multipart/form-data; boundary=XyZ";

fn read(media: &str, text: &str) -> Decoded {
    decode(&Decoder::Multipart, media, "", text.as_bytes(), true, &Bounds::default())
}

#[test]
fn names_files_and_fields_come_out() {
    let body = "--XyZ\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n42\r\n\
        --XyZ\r\ncontent-disposition: form-data; name=\"doc\"; filename=\"a b;c.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n\r\n\
        --XyZ\r\nContent-Disposition: form-data; name=doc; filename=\"ü.bin\"\r\nX-Other: 1\r\n\r\n\r\n--XyZ--\r\n";
    let part = |name: &str, filename, content_type, size: usize, value| json!({"name": name, "filename": filename, "content_type": content_type, "size": size, "value": value});
    let none = || json!(null);
    assert_eq!(
        read("Multipart/Form-Data; Boundary=\"XyZ\"", body),
        Decoded::Ready(tree(json!({"part_count": 3, "parts": [
            part("chat_id", none(), none(), 2, json!("42")),
            part("doc", json!("a b;c.txt"), json!("text/plain"), 7, none()),
            part("doc", json!("ü.bin"), none(), 0, none()),
        ]})))
    );
}

#[test]
fn parts_of_other_multipart_bodies_need_no_name() {
    let body = "--b\r\nContent-Type: application/json\r\n\r\n{\"name\":\"x\"}\r\n--b\r\nContent-Type: image/png\r\n\r\n\u{1}PNG\r\n\
        --b\r\n\r\nplain\r\n--b--";
    let Decoded::Ready(decoded) = read("multipart/related; boundary=b", body) else { panic!() };
    let at = |path: &[&str]| crate::facts::lookup(&decoded, path).cloned();
    assert_eq!(at(&["parts", "0", "value"]), Some(Term::str("{\"name\":\"x\"}")));
    assert_eq!(at(&["parts", "1", "value"]), Some(Term::Null));
    assert_eq!(at(&["parts", "2", "value"]), Some(Term::str("plain")));
    failure(read("multipart/form-data; boundary=b", body));
}

#[test]
fn an_abused_boundary_is_unreadable() {
    let part = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
    for body in [
        String::new(),
        "--XyZ".into(),
        "--XyZ--extra".into(),
        format!("preamble\r\n--XyZ\r\n{part}1\r\n--XyZ--"),
        format!("--XyZ\r\n{part}1\r\n--XyZ--\r\nepilogue"),
        format!("--XyZ\r\n{part}1\r\n--XyZ"),
        format!("--XyZ\r\n{part}1\r\n--XyZ \r\n{part}2\r\n--XyZ--"),
        format!("--XyZ\r\n{part}1\r\n--XyZabc\r\n{part}2\r\n--XyZ--"),
        format!("--XyZ\r\n{part}1\n--XyZ\r\n{part}2\r\n--XyZ--"),
        format!("--XyZ\r\n{part}1 --XyZ\r\n{part}2\r\n--XyZ--"),
        format!("--XyZ\n{part}1\r\n--XyZ--"),
        format!("--XyZ\r\n{part}1--XyZ--"),
    ] {
        failure(read(FORM, &body));
    }
    for media in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=a; boundary=XyZ",
        "multipart/form-data; boundary=\"X\\yZ\"",
        "multipart/form-data; boundary=X\tyZ",
        "application/json; boundary=XyZ",
    ] {
        failure(read(media, &format!("--XyZ\r\n{part}1\r\n--XyZ--")));
    }
    failure(read(&format!("multipart/form-data; boundary={}", "a".repeat(71)), ""));
}

#[test]
fn a_part_that_servers_read_differently_is_unreadable() {
    for head in [
        "",
        "Content-Disposition: form-data\r\n",
        "Content-Disposition: attachment; name=\"a\"\r\n",
        "Content-Disposition: form-data; name=\"a\"; name=\"b\"\r\n",
        "Content-Disposition: form-data; name=\"a\"; filename*=utf-8''x\r\n",
        "Content-Disposition: form-data; name=\"a\\\"b\"\r\n",
        "Content-Disposition: form-data; name=\"a\r\n",
        "Content-Disposition: form-data; name=\"a\"b\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"b\"\r\n",
        "Content-Disposition: form-data;\r\n name=\"a\"\r\n",
        "Content-Disposition : form-data; name=\"a\"\r\n",
        "Content-Disposition: form-data; name=\"a\"\nX: y\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Transfer-Encoding: base64\r\n",
        "Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=utf-16\r\n",
        "no header\r\n",
    ] {
        failure(read(FORM, &format!("--XyZ\r\n{head}\r\n1\r\n--XyZ--")));
    }
    let raw = b"--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--XyZ--";
    failure(decode(&Decoder::Multipart, FORM, "", raw, true, &Bounds::default()));
}

#[test]
fn many_parts_are_truncated() {
    let part = "--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n";
    assert_eq!(read(FORM, &format!("{}--XyZ--", part.repeat(103))), Decoded::Truncated);
    assert!(matches!(read(FORM, &format!("{}--XyZ--", part.repeat(102))), Decoded::Ready(_)));
}
