//! As whom controllers are asked.

use std::path::Path;

use tls::sign::Authority;

use crate::kept::Kept;

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn who_has_a_certificate_needs_no_token() {
    let authority = Authority::new();
    let [own, eye] = ["controller.example", "eye"].map(|it| authority.sign(it));
    let ca = authority.path("ca");
    let kept = Kept::started(&[
        "--tls-certificate",
        word(&own.certificate),
        "--tls-key",
        word(&own.key),
        "--clients-ca",
        word(&ca),
    ]);
    let server = format!("https://{}", kept.listen());
    let set = ["context", "set", "eye", "--server", &server, "--server-name", "controller.example"];
    let shown = |certificate| {
        let shown = ["--ca", word(&ca), "--certificate", certificate, "--key", word(&eye.key)];
        [&set[..], &shown].concat()
    };
    // What no command could use is refused at once.
    let refused = kept.run(&shown("none.pem"));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && said.contains("none.pem"), "{said}");
    kept.ends(2, &[&set[..], &["--ca", word(&ca), "--certificate", "none.pem"]].concat());
    kept.zovn(&shown(word(&eye.certificate)));
    let unknown = kept.run(&["whoami"]);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(unknown.status.code() == Some(1) && said.contains("certificate add"), "{said}");
    let data = kept.data();
    let certificate = |words: &[&str]| {
        kept.zovn(&[&["controller", "certificate"][..], words, &["--data", word(&data)]].concat())
    };
    certificate(&["add", "eye", "--role", "auditor"]);
    // A controller that runs knows it a moment later.
    while kept.run(&["whoami"]).status.code() != Some(0) {}
    assert_eq!(kept.zovn(&["whoami"]), "eye, auditor\n");
    assert!(certificate(&["list"]).lines().any(|it| it.contains("eye") && it.contains("auditor")));
    let token = ["controller", "token", "list", "--json", "--data", word(&data)];
    assert_eq!(kept.zovn(&token), "[]\n");
    certificate(&["remove", "eye"]);
    while kept.run(&["whoami"]).status.code() != Some(1) {}
}
