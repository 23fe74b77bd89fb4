//! Who has written what, asked over the API.

use controller::Role;

use crate::tenants::Guarded;

fn switch(tenant: &str) -> String {
    format!("{{kind: LogicalSwitch, metadata: {{name: s, tenant: {tenant}}}, spec: {{}}}}")
}

#[test]
fn who_sees_everything_reads_who_has_written_what() {
    let guarded = Guarded::new();
    guarded.admin().apply("", "{kind: Tenant, metadata: {name: a}, spec: {}}").is(200);
    let a = guarded.tenant("a");
    a.apply("", &switch("a")).is(200);
    a.apply("", &switch("b")).is(404);
    let eye = guarded.token("eye", Role::Auditor);
    let get = |query: &str| eye.ask("GET", &format!("/v1/audit{query}"), &[], "");
    let read = |query: &str| {
        let body = get(query).is(200).body;
        let lines = body["lines"].as_array().unwrap().clone();
        let who: Vec<_> = lines.iter().map(|it| it["who"].as_str().unwrap().to_owned()).collect();
        (who, body["more"].as_bool().unwrap())
    };
    assert_eq!(read(""), (vec!["a".into(), "admin".into()], false));
    assert_eq!(read("?limit=1"), (vec!["a".into()], true));
    assert_eq!(read("?refused=true"), (vec!["a".into()], false));
    assert_eq!(read("?from=2020-01-01T00:00:00Z").0.len(), 2);
    assert_eq!(read("?from=9999-01-01T00:00:00Z"), (vec![], false));
    for query in ["?limit=0", "?limit=1001", "?from=yesterday", "?colour=1"] {
        get(query).is(400);
    }
    a.ask("GET", "/v1/audit", &[], "").is(404);
}
