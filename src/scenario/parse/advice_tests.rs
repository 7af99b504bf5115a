//! Tests of what the parser advises: what can never hold, and what was most likely meant.

use super::check_text;
use super::tests::{check, valid};
use crate::diagnostic::{Diagnostic, render_all};

#[test]
fn a_path_that_no_endpoint_has_is_noticed() {
    for path in [
        "'/v1/systems/status'",
        "'/v2/**'",
        "{ starts_with = '/v2/' }",
        "{ matches = '^/v2/' }",
        "{ one_of = ['/v1/subscribe', '/v1/users/a/b'] }",
        "{ equals = '/v1/workflows/' }",
    ] {
        let text = format!("[[rule]]\nwhen = {{ path = {path} }}\npass = true\n");
        check(&text, "scenario/never-matches", path);
    }
    for path in [
        "'/v1/system/status'",
        "'/v1/**'",
        "'/v1/workflows/wf_1'",
        "'/v1/workflows/wf_*'",
        "'/v1/workflows/wf_1/cancel'",
        "{ matches = '^/v1/users/u[0-9]+$' }",
        "{ matches = '^/v1/users?/u' }",
        "{ matches = '^/v2|/v1/users/a$' }",
        "{ ends_with = '/cancel', not = '/v1/hello' }",
    ] {
        valid(&format!("[[rule]]\nwhen = {{ path = {path} }}\npass = true\n"));
    }
    let (_, problems) = check_text("test", "[[rule]]\nwhen.path = '/v1/system/statis'\npass = true\n");
    assert!(problems[0].hint.contains("did you mean \"/v1/system/status\"?"), "{problems:?}");
}

#[test]
fn a_status_that_is_never_answered_is_noticed() {
    let emit = |on: &str| format!("[[emit]]\nevent = 'workflow.completed'\non = {{ {on} }}\n");
    check(&emit("operation = 'events.subscribe', status = 201"), "scenario/never-matches", "201");
    check(&emit("operation = ['hello', 'system.status'], status = 404"), "scenario/never-matches", "404");
    check(&emit("status = 418"), "scenario/never-matches", "418");
    for on in
        ["operation = 'events.subscribe', status = 422", "operation = 'workflows.read', status = 404", "status = 429"]
    {
        valid(&emit(on));
    }
    // A rule of the file may answer it.
    valid(&format!("[[rule]]\nreply = {{ status = 201 }}\n{}", emit("operation = 'events.subscribe', status = 201")));
}

#[test]
fn a_step_may_depend_on_the_answer() {
    let story =
        |rule: &str| format!("[[rule]]\n{rule}\n[[rule]]\nwhen = {{ step = 'b' }}\nreply = {{ status = 500 }}\n");
    let scenario = valid(&story("when = { operation = 'hello' }\npass = true\nnext = { step = 'b', status = 200 }"));
    let next = scenario.rules[0].next.as_ref().expect("it leads on");
    assert_eq!((&*next.step, next.status), ("b", Some(200)));
    valid(&story("when.step = 'start'\nnext = { step = 'b' }"));
    valid(&story(
        "when.operation = 'hello'\nsequence = [{ error = 'unauthorized' }, { pass = true }]\nnext = { step = 'b', status = 200 }",
    ));
    for (rule, code, place) in [
        ("pass = true\nnext = { status = 200 }", "scenario/missing-key", "{ status = 200 }"),
        ("pass = true\nnext = { step = 'b', states = 200 }", "scenario/unknown-key", "states"),
        ("pass = true\nnext = { step = 'b', status = 99 }", "scenario/bad-value", "99"),
        ("reply.status = 422\nnext = { step = 'b', status = 200 }", "scenario/never-matches", "200"),
        ("when.operation = 'hello'\nnext = { step = 'b', status = 422 }", "scenario/never-matches", "422"),
        ("fault = 'reset'\nnext = { step = 'b', status = 200 }", "scenario/never-matches", "200"),
        (
            "sequence = [{ pass = true }, { error = 'unauthorized' }]\nnext = { step = 'b', status = 200 }",
            "scenario/never-matches",
            "200",
        ),
    ] {
        let text = format!("[[rule]]\n{rule}\n");
        let (_, problems) = check_text("test", &text);
        let found: Vec<_> = problems.iter().map(|problem| (problem.code, &text[problem.span.clone()])).collect();
        assert_eq!(found, [(code, place)], "{text}");
    }
}

/// Checks that exactly one problem is found, and that its message and hint together say this.
fn advised(text: &str, advice: &str) {
    let (_, problems) = check_text("test", text);
    assert_eq!(problems.len(), 1, "{text}\n{}", render_all(&problems, false));
    let said = format!("{}; {}", problems[0].message, problems[0].hint);
    assert!(said.contains(advice), "{text}\n{said}");
}

#[test]
fn one_mistake_in_the_form_is_one_message() {
    for text in [
        "title = \"x\"\n[[rule]]\nwhen = { operation = \"system.status }\nreply = { status = 200, body = \"a\" }\n",
        "[[rule]]\nreply = { status = 422, message = \"gone }\ntimes = 3\n",
        "title = 'unfinished\n[[rule]]\npass = true\n",
        "[[rule]]\nwhen = { path = '/v1/hello }\npass = true\n[[rule]]\npass = true\n",
    ] {
        advised(text, "the string is not closed; expected");
    }
    advised("[[rule]]\nreply = { status = 200\ndelay = \"1s\"\n", "expected");
    let yaml = "this looks like YAML; scenarios are TOML";
    advised("title: Burst\nrules:\n  - when:\n      operation: system.status\n    reply:\n      status: 429\n", yaml);
    advised("# a comment\n---\ntitle: \"Burst\"\nrule:\n- name: a\n  reply: {status: 500}\n", yaml);
    advised("{ \"title\": \"Burst\", \"rule\": [{ \"pass\": true }] }", "this looks like JSON; scenarios are TOML");
    // Independent mistakes are each reported.
    let (_, problems) = check_text("test", "title = \"unfinished\n[[rule]\npass = true\n[[rule]]\ntimes = \n");
    assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [1, 2, 5], "{problems:?}");
}

#[test]
fn words_of_other_tools_lead_to_those_of_the_language() {
    let emit = |on: &str| format!("[[emit]]\nevent = 'workflow.completed'\non = {on}\n");
    for (text, advice) in [
        (emit("'subscribe'"), "on = { operation = \"events.subscribe\" }"),
        (emit("'system.status'"), "on = { operation = \"system.status\" }"),
        (emit("'activated'"), "did you mean `activation`?"),
        ("[[rule]]\nsequence = [200]\n".to_owned(), "{ status = 429 }"),
        ("[[rule]]\nresponse = { status = 200 }\n".to_owned(), "did you mean `reply`?"),
        ("[[rule]]\nsequence = [{ response = { status = 200 } }]\n".to_owned(), "did you mean `reply`?"),
        ("[[rules]]\npass = true\n".to_owned(), "did you mean `rule`?"),
        ("name = 'invalid'\n".to_owned(), "did you mean `title`?"),
        ("[[webhook]]\nevent = 'workflow.completed'\n".to_owned(), "did you mean `emit`?"),
        ("[[rule]]\npath = '/v1/hello'\npass = true\n".to_owned(), "`path` belongs in `when`"),
        ("[[rule]]\nstatus = 429\npass = true\n".to_owned(), "`status` belongs in `reply`"),
        ("[[rule]]\nwhen = { status = 429 }\npass = true\n".to_owned(), "`status` belongs in `reply`"),
        ("[[rule]]\nwhen = { url = '/v1/hello' }\npass = true\n".to_owned(), "did you mean `path`?"),
        ("[[rule]]\npass = true\ncount = 3\n".to_owned(), "did you mean `times`?"),
        ("[[rule]]\npass = true\nlimit = 3\n".to_owned(), "did you mean `times`?"),
        ("[[rule]]\npass = true\nafter = 3\n".to_owned(), "did you mean `skip`?"),
        ("[[rule]]\nfault = 'connection_reset'\n".to_owned(), "did you mean `reset`?"),
        ("[[rule]]\nfault = 'econnreset'\n".to_owned(), "did you mean `reset`?"),
        ("ratelimit = { requests = 3 }\n".to_owned(), "`rate_limit` belongs in `[profile]`"),
        ("[[rule]]\nratelimit = 3\npass = true\n".to_owned(), "`rate_limit` belongs in `[profile]`"),
        ("[profile]\nratelimit = { requests = 3 }\n".to_owned(), "did you mean `rate_limit`?"),
        ("[profile]\nratelimit.requests = 3\n".to_owned(), "did you mean `rate_limit"),
        ("[[rule]]\nreply = { error = 'ratelimit' }\n".to_owned(), "did you mean `rate_limit_exceeded`?"),
    ] {
        advised(&text, advice);
    }
}

#[test]
fn parts_that_no_request_has_are_noticed() {
    let reply = |operation: &str, template: &str| {
        format!("[[rule]]\nwhen = {{ operation = '{operation}' }}\nreply = {{ status = 200, body = \"{template}\" }}\n")
    };
    for (operation, template) in [
        ("system.status", "{{ request.body.url }}"),
        ("hello", "{{ request.body }}"),
        ("hello", "{{ request.key }}"),
        ("system.status", "{{ request.query.page }}"),
        ("system.status", "{{ request.path.id }}"),
        ("system.status", "{{ request.method[0] }}"),
        ("events.subscribe", "{{ request.bdy.url | upper }}"),
        ("events.subscribe", "{{ random_int(1, request.nothing) }}"),
        ("events.subscribe", "{{ request.headers.authorization }}"),
    ] {
        check(&reply(operation, template), "scenario/missing-part", &format!("\"{template}\""));
    }
    for (operation, template) in [
        ("events.subscribe", "{{ request.body.url }} {{ request.key }}"),
        ("system.status", "{{ request.query.include_checks }} {{ request.query.page | default('1') }}"),
        ("workflows.list", "{{ request.query.limit }} {{ request.headers.x_trace }}"),
    ] {
        valid(&reply(operation, template));
    }
    // A rule with a condition on a parameter expects it, and a rule for every operation may meet any part.
    valid(
        "[[rule]]\nwhen = { operation = 'hello', query.page = { present = true } }\nreply = { status = 200, body = '{{ request.query.page }}' }\n",
    );
    valid("[[rule]]\nreply = { status = 200, body = '{{ request.query.page }}{{ request.body.a }}' }\n");
    let text = "[[emit]]\nevent = 'workflow.completed'\non = 'command'\ndata = { a = '{{ request.body.a }}' }\n";
    check(text, "scenario/missing-part", "'{{ request.body.a }}'");
}

#[test]
fn values_and_keys_in_the_wrong_form_are_answered_with_the_right_one() {
    for (rule, advice) in [
        ("reply = { status = \"422\" }", "found a string; write it without quotes: status = 422"),
        (
            "pass = true\ntimes = \"2\"",
            "expected an integer for `times`, found a string; write it without quotes: times = 2",
        ),
        ("pass = true\nchance = \"0.5\"", "write it without quotes: chance = 0.5"),
        ("pass = \"true\"", "expected a boolean for `pass`, found a string; write it without quotes: pass = true"),
        ("pass = \"yes\"", "expected a boolean for `pass`, found a string"),
        ("pass = true\nname = 3", "expected a string for `name`, found an integer; write it in quotes: name = \"3\""),
        ("pass = true\nname = false", "found a boolean; write it in quotes: name = \"false\""),
        ("pass = true\nname = 0.5", "found a float; write it in quotes: name = \"0.5\""),
        (
            "when.step = 1\npass = true",
            "a step is a name of your choice, such as \"subscribed\"; a story begins at \"start\"",
        ),
        ("next.step = 1\npass = true", "a step is a name of your choice"),
        ("next = 1\npass = true", "expected a string for `next`, found an integer; a step is a name of your choice"),
        ("reply = { error = 429 }", "write the error's name, error = \"rate_limit_exceeded\", or status = 429"),
        ("reply = { error = 418 }", "write the error's name, error = \"rate_limit_exceeded\", or status = 418"),
        ("reply = 429", "expected a table for `reply`, found an integer; write reply = { status = 429 }"),
        ("reply = \"429\"", "write reply = { status = 429 }"),
        ("reply = \"unauthorized\"", "write reply = { error = \"unauthorized\" }"),
        ("reply = true", "for example reply = { error = \"unauthorized\" }, or reply = { status = 422 }"),
        ("pass = true\nnext = { step = \"a\", on = 201 }", "did you mean `status`?"),
        ("pass = true\nnext = { step = \"a\", when = 201 }", "did you mean `status`?"),
        ("pass = true\nnext = { step = \"a\", if_status = 201 }", "did you mean `status`?"),
        ("pass = true\nif_status = 201", "write next = { step = \"subscribed\", status = 201 }"),
        ("pass = true\nwhen = { if_status = 201 }", "write next = { step = \"subscribed\", status = 201 }"),
        ("sequence = [{ pass = true, if_status = 201 }]", "write next = { step = \"subscribed\", status = 201 }"),
        (
            "reply = { error: \"unauthorized\" }",
            "expected `=` after `error`, found `:`; this file is TOML: write error = ",
        ),
        ("reply = { \"error\": \"unauthorized\" }", "expected `=` after `error`, found `:`"),
        (
            "reply = { error : \"unauthorized\" }",
            "expected `=` after `error`, found `:`; this file is TOML: write error = ",
        ),
        ("when.operation: 'hello'\npass = true", "expected `=` after `when.operation`, found `:`"),
    ] {
        advised(&format!("[[rule]]\n{rule}\n"), advice);
    }
    // A colon elsewhere is none of these.
    advised("title = \"a: b\n[[rule]]\npass = true\n", "the string is not closed");
    advised("title = a: b\n[[rule]]\npass = true\n", "string values must be quoted");
}

#[test]
fn an_error_with_a_status_of_success_is_noticed() {
    let rule = |reply: &str| format!("[[rule]]\nreply = {{ {reply} }}\n");
    for status in [200, 302] {
        let text = rule(&format!("error = 'unauthorized', status = {status}"));
        check(&text, "scenario/error-status", &status.to_string());
    }
    advised(
        &rule("error = 'unauthorized', status = 200"),
        "the error `unauthorized` is sent with status 200, which clients do not take for an error; \
         leave `status` out to send 401, or leave `error` out",
    );
    check("[[rule]]\nsequence = [{ error = 'unauthorized', status = 200 }]\n", "scenario/error-status", "200");
    for reply in ["error = 'unauthorized', status = 403", "error = 'unauthorized'", "status = 200"] {
        valid(&rule(reply));
    }
}

#[test]
fn a_key_of_another_table_is_shown_its_place() {
    for (text, advice) in [
        ("[webhooks]\ncopies = 2\n", "`webhooks` belongs in `[profile]`"),
        ("[[subscription]]\nurl = 'https://a.example.com/'\n", "write `[[given.subscription]]`"),
        ("status = 500\n", "`status` belongs in `reply`"),
        ("[[emit]]\nevent = 'workflow.completed'\non = 'start'\n", "did you mean `activation`?"),
        ("[[emit]]\nevent = 'workflow.completed'\non = 'workflow.completed'\n", "the type goes into `event`"),
        ("[[emit]]\nevent = 'workflow.completed'\non = 'subscribe'\n", "on = { operation = \"events.subscribe\" }"),
        ("[[emit]]\nevent = 'workflow.completed'\non = 'comand'\n", "did you mean `command`?"),
    ] {
        let (_, problems) = check_text("test", text);
        let lines: Vec<String> = problems.iter().map(Diagnostic::one_line).collect();
        assert!(lines.iter().any(|line| line.contains(advice)), "{text}: {lines:?}");
    }
}
