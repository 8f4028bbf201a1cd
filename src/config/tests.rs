//! Whole homes: loading, reloading, watching.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::*;

const SERVICE: &str = "name = \"hub\"\nhosts = [\"hub.test\"]\n\
    [[route]]\nmatch = \"GET hub.test /{rest*}\"\nemit = ['operation(\"read\")']\n\
    [verbs.read]\nabout = \"read\"\noperations = [\"read\"]\n";
const GRANT: &str = "name = \"g\"\nservice = \"hub\"\ncredential = \"hub/a\"\ndatalog = 'allow if grant(\"g\");'\n";

/// A home with a service, a grant, a spec and a declared credential.
struct Place {
    dir: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.create().unwrap();
        let place = Place { dir, home };
        place.write("config.toml", "mode = 'both'\n");
        place.write("services/hub.toml", SERVICE);
        place.write("grants/g.toml", GRANT);
        place.write("specs/worker.spec", "grant g\nallow hub: only read\n");
        std::fs::write(place.path("secret"), "s3cret").unwrap();
        place.write("credentials/hub.toml", "name = 'hub/a'\nservice = 'hub'\nsecret_file = '../../secret'\n");
        place
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        self.home.write(path, text).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn wrong(&self) -> String {
        load(&self.home).unwrap_err().to_string().replace(&self.dir.path().display().to_string(), "")
    }
}

#[test]
fn a_whole_home_loads() {
    let place = Place::new();
    let snapshot = load(&place.home).unwrap();
    assert!(snapshot.catalog.get("hub").is_some());
    assert_eq!(snapshot.grants["g"].service.as_str(), "hub");
    assert_eq!(snapshot.specs["worker"].entries.len(), 2);
    assert_eq!(snapshot.declared[0].name.as_str(), "hub/a");
    assert_eq!(snapshot.warnings.to_vec(), [""; 0]);
}

#[test]
fn r155_an_empty_home_loads_and_says_that_nothing_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let warnings = load(&Home::at(dir.path())).unwrap().warnings;
    assert!(warnings[0].contains("everything is at its default"), "{warnings:?}");
    assert!(warnings[1].contains("every request is refused"), "{warnings:?}");
}

#[test]
fn r155_files_that_allow_nothing_say_so() {
    let place = Place::new();
    place.write("grants/empty.toml", "name = 'empty'\nservice = 'hub'\n");
    place.write("specs/empty.spec", "# nothing\n");
    let warnings = load(&place.home).unwrap().warnings.join("\n");
    assert!(warnings.contains("empty.toml: no policy") && warnings.contains("empty.spec: no `grant`"), "{warnings}");
}

#[test]
fn everything_wrong_in_every_file_is_told_together() {
    let place = Place::new();
    place.write("config.toml", "moed = 'both'\n");
    place.write("grants/b.toml", "name = 'b'\nservice = 'hub'\nanonymous = 'true'\n");
    place.write("grants/g2.toml", GRANT);
    place.write("specs/x.spec", "allow hub\n");
    place.write("specs/bad name.spec", "grant g\n");
    place.write("services/bad.toml", "name = 'bad'\nhsots = []\n");
    place.write("credentials/c.toml", "name = 'c/c'\nservice = 'hub'\nsecret_file = 'gone'\n");
    place.write("credentials/d.toml", "name = 'c/c'\nservice = 'hub'\nsecret_env = 'KLEIS_TEST_NO_SUCH_VARIABLE'\n");
    let told = place.wrong();
    for expected in [
        "/config/config.toml:1:1: unknown key `moed`: did you mean `mode`?",
        "/config/grants/b.toml:3:13: `anonymous` is a string",
        "/config/grants/g2.toml: grant `g` is in `",
        "/config/specs/x.spec:1:7: use a service, a colon",
        "/config/specs/bad name.spec: file name: `bad name` is not a name for a spec",
        "/config/services/bad.toml:2:1: unknown key `hsots`: did you mean `hosts`?",
        "/config/credentials/c.toml: `secret_file`: cannot read `",
        "/config/credentials/d.toml: credential `c/c` is declared in another file already",
        "/config/credentials/d.toml: `secret_env`: the environment has no `KLEIS_TEST_NO_SUCH_VARIABLE`",
    ] {
        assert!(told.contains(expected), "{expected}\nin\n{told}");
    }
}

#[test]
fn names_that_do_not_exist_are_told() {
    let place = Place::new();
    place.write("config.toml", "default_spec = 'wroker'\n[upstream]\nca_file = 'none.pem'\n");
    place.write("credentials/x.toml", "name = 'x/x'\nservice = 'hbu'\nsecret_file = '../../secret'\n");
    let told = place.wrong();
    assert!(told.contains("`default_spec`: there is no spec `wroker`: did you mean `worker`?"), "{told}");
    assert!(told.contains("`upstream.ca_file`: cannot read"), "{told}");
    assert!(told.contains("unknown service `hbu`: did you mean `hub`?"), "{told}");
    let data = place.home.data_dir().display();
    place.write("config.toml", &format!("[[issuer]]\nname = 'o'\ntoken_file = '{data}/t'\n"));
    assert!(place.wrong().contains("`token_file` is inside `data/`"));
    std::fs::remove_file(place.path("config/credentials/x.toml")).unwrap();
    place.write("config.toml", "[[issuer]]\nname = 'o'\ngrants = ['h', 'x*']\n");
    let warnings = load(&place.home).unwrap().warnings.join("\n");
    assert!(warnings.contains("issuer `o` may use grant `h`, which does not exist"), "{warnings}");
}

#[test]
fn r134_a_permission_that_no_provider_knows_is_told_when_the_grant_is_loaded() {
    let place = Place::new();
    place.write("grants/g.toml", &format!("narrow = {{ permissions = {{ content = 'read' }} }}\n{GRANT}"));
    let wrong = place.wrong();
    assert!(wrong.contains("g.toml: `narrow.permissions`: `content`") && wrong.contains("`contents`"), "{wrong}");
}

#[test]
fn r164_a_file_that_everybody_may_write_is_refused_with_the_mend() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let grant = place.path("config/grants/g.toml");
    std::fs::set_permissions(&grant, std::fs::Permissions::from_mode(0o646)).unwrap();
    let told = place.wrong();
    assert!(told.contains("can be written by everybody (mode 0646): run `chmod o-w"), "{told}");
}

#[test]
fn an_exec_decoder_needs_leave() {
    let place = Place::new();
    let decoder = "[[decoder]]\nmedia = [\"text/x\"]\ndecoder = \"exec:/bin/cat\"\nmatch = \"POST hub.test /x\"\n";
    place.write("services/hub.toml", &SERVICE.replace("[[route]]", &format!("{decoder}[[route]]")));
    assert!(place.wrong().contains("it needs `allow_exec = true`"), "{}", place.wrong());
    place.write("config.toml", "allow_exec = true");
    load(&place.home).unwrap();
}

#[test]
fn strangers_are_passed_over_and_what_is_no_text_is_told() {
    let place = Place::new();
    for name in [".hidden.toml", "g.toml~", "#g.toml#", ".g.toml.swp"] {
        std::fs::write(place.path("config/grants").join(name), "nonsense").unwrap();
    }
    assert!(load(&place.home).unwrap().warnings.is_empty());
    std::fs::write(place.path("config/grants/g.tml"), "nonsense").unwrap();
    assert!(load(&place.home).unwrap().warnings[0].ends_with("grants/g.tml is not read: files here end in `.toml`"));
    std::fs::write(place.path("config/grants/h.toml"), b"name = '\xff'").unwrap();
    assert!(place.wrong().contains("h.toml: is not UTF-8 (at byte 8)"), "{}", place.wrong());
}

#[test]
fn a_home_is_private_and_found_in_the_environment() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(place.home.config_dir()), 0o700);
    assert_eq!(mode(&place.path("config/grants/g.toml")), 0o600);
    let find = |variables: &[(&str, &str)]| {
        Home::find_in(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| PathBuf::from(value)))
    };
    assert_eq!(find(&[("KLEIS_HOME", "/k"), ("HOME", "/h")]).unwrap(), Home::at(Path::new("/k")));
    let xdg = find(&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")]).unwrap();
    assert_eq!(xdg.config_file(), Path::new("/c/kleis/config.toml"));
    assert_eq!(xdg.control_socket(), Path::new("/h/.local/state/kleis/control.sock"));
    assert!(matches!(find(&[("KLEIS_HOME", "k")]), Err(HomeError::Relative { variable: "KLEIS_HOME", .. })));
    assert!(matches!(find(&[]), Err(HomeError::Unknown)));
}

#[test]
fn r164_a_bad_reload_changes_nothing_and_is_visible() {
    let place = Place::new();
    let live = Live::open(place.home.clone()).unwrap();
    let before = live.snapshot();
    let good = std::fs::read_to_string(place.path("config/grants/g.toml")).unwrap();
    for (file, text) in [
        ("config.toml", "mode = "),
        ("config.toml", "nonsense = 1"),
        ("config.toml", "allow_exec = 'true'"),
        ("grants/g.toml", "name = 'g'\nservice = 'hub'\ndatalog = 'allow iff true;'"),
        ("credentials/hub.toml", "name = 'hub/a'\nservice = 'hub'\nsecret_file = 'gone.pem'"),
    ] {
        let kept = std::fs::read_to_string(place.path("config").join(file)).unwrap();
        place.write(file, text);
        let reload = live.reload();
        assert!(reload.error().is_some_and(|errors| errors.to_string().contains(file)), "{file}: {reload:?}");
        assert_eq!(reload.generation, before.generation);
        assert!(Arc::ptr_eq(&before, &live.snapshot()));
        assert!(live.last_reload().error().is_some());
        place.write(file, &kept);
    }
    std::fs::remove_file(place.path("config/config.toml")).unwrap();
    assert!(live.reload().error().is_some_and(|errors| errors.to_string().contains("the file is gone")));
    std::fs::remove_file(place.path("secret")).unwrap();
    assert!(live.reload().error().is_some_and(|errors| errors.to_string().contains("secret_file")));
    assert!(Arc::ptr_eq(&before, &live.snapshot()));
    // what was before is no new generation, and clears the error
    place.write("config.toml", "mode = 'both'\n");
    place.write("grants/g.toml", &good);
    std::fs::write(place.path("secret"), "s3cret").unwrap();
    assert!(live.reload().error().is_none());
    assert!(Arc::ptr_eq(&before, &live.snapshot()));
}

#[test]
fn r163_a_snapshot_is_swapped_as_a_whole() {
    let place = Place::new();
    let live = Live::open(place.home.clone()).unwrap();
    let before = live.snapshot();
    place.write("config.toml", "passthrough = ['a.test']\n");
    std::fs::remove_file(place.path("config/grants/g.toml")).unwrap();
    place.write("specs/worker.spec", "allow hub: none\n");
    let reload = live.reload();
    assert_eq!((reload.generation, reload.error()), (2, None));
    let after = live.snapshot();
    assert!(after.grants.is_empty() && after.config.passthrough.len() == 1);
    assert!(before.grants.len() == 1 && before.config.passthrough.is_empty());
}

#[test]
fn what_needs_a_restart_is_told_until_there_was_one() {
    let place = Place::new();
    let live = Live::open(place.home.clone()).unwrap();
    let listen = live.snapshot().config.listen.clone();
    let told = |reload: Arc<Reload>| match &reload.outcome {
        Outcome::InForce { needs_restart } => needs_restart.clone(),
        Outcome::Failed(errors) => panic!("{errors}"),
    };
    place.write("config.toml", "listen = '127.0.0.1:9'\npassthrough = ['a.test']\n[audit]\non_failure = 'continue'\n");
    assert_eq!(told(live.reload()), ["listen", "audit.on_failure"]);
    assert_eq!(told(live.reload()), ["listen", "audit.on_failure"]);
    assert_eq!(live.snapshot().config.listen, listen);
    assert_eq!(live.snapshot().config.passthrough.len(), 1);
    place.write("config.toml", "");
    assert!(told(live.reload()).is_empty());
}

/// Waits until a reload has come to its end for which `done` holds.
fn wait(live: &Live, seen: &mut tokio::sync::watch::Receiver<Arc<Reload>>, done: impl Fn(&Snapshot, &Reload) -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let arrived = runtime.block_on(async {
        let wait = seen.wait_for(|reload| done(&live.snapshot(), reload));
        tokio::time::timeout(Duration::from_secs(20), wait).await.map(|_| ())
    });
    assert!(arrived.is_ok(), "no reload came: {:?}", live.last_reload());
}

#[test]
fn a_changed_file_is_in_force_without_anybody_asking() {
    let place = Place::new();
    let live = Live::open(place.home.clone()).unwrap();
    let mut seen = live.subscribe();
    let _watcher = Watcher::start(live.clone()).unwrap();
    place.write("grants/h.toml", &GRANT.replace("\"g\"", "\"h\""));
    wait(&live, &mut seen, |snapshot, _| snapshot.grants.contains_key("h"));
    // written in place, as some editors do
    std::fs::write(place.path("config/config.toml"), "passthrough = ['a.test']\n").unwrap();
    wait(&live, &mut seen, |snapshot, _| snapshot.config.passthrough.len() == 1);
    std::fs::write(place.path("config/config.toml"), "passthrough = 'a.test'\n").unwrap();
    wait(&live, &mut seen, |_, reload| reload.error().is_some());
    std::fs::write(place.path("config/config.toml"), "passthrough = []\n").unwrap();
    wait(&live, &mut seen, |snapshot, reload| reload.error().is_none() && snapshot.config.passthrough.is_empty());
    // a grant that a spec still names can't go; then it can
    std::fs::remove_file(place.path("config/grants/g.toml")).unwrap();
    wait(&live, &mut seen, |snapshot, reload| reload.error().is_some() && snapshot.grants.contains_key("g"));
    place.write("specs/worker.spec", "allow hub: only read\n");
    wait(&live, &mut seen, |snapshot, _| !snapshot.grants.contains_key("g"));
    // a key file that goes away is told, too
    std::fs::remove_file(place.path("secret")).unwrap();
    wait(&live, &mut seen, |_, reload| reload.error().is_some());
}

#[test]
fn links_are_followed_when_they_are_swapped_and_folders_when_they_are_replaced() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    // as Kubernetes mounts a config map: files are links through `..data`, which is swapped
    let grants = place.path("config/grants");
    std::fs::remove_dir_all(&grants).unwrap();
    for (version, name) in [("..v1", "g"), ("..v2", "h")] {
        std::fs::create_dir_all(grants.join(version)).unwrap();
        std::fs::write(grants.join(version).join("g.toml"), GRANT.replace("\"g\"", &format!("\"{name}\""))).unwrap();
    }
    symlink("..v1", grants.join("..data")).unwrap();
    symlink("..data/g.toml", grants.join("g.toml")).unwrap();
    // and a folder that is a link to another place
    let specs = place.path("elsewhere");
    std::fs::rename(place.path("config/specs"), &specs).unwrap();
    symlink(&specs, place.path("config/specs")).unwrap();
    std::fs::write(specs.join("worker.spec"), "allow hub: all\n").unwrap();
    let live = Live::open(place.home.clone()).unwrap();
    assert!(live.snapshot().grants.contains_key("g") && live.snapshot().warnings.is_empty());
    let mut seen = live.subscribe();
    let _watcher = Watcher::start(live.clone()).unwrap();
    symlink("..v2", grants.join("..data_new")).unwrap();
    std::fs::rename(grants.join("..data_new"), grants.join("..data")).unwrap();
    wait(&live, &mut seen, |snapshot, _| snapshot.grants.contains_key("h"));
    std::fs::write(specs.join("other.spec"), "allow hub: none\n").unwrap();
    wait(&live, &mut seen, |snapshot, _| snapshot.specs.contains_key("other"));
    // the whole folder is replaced
    std::fs::create_dir(place.path("new")).unwrap();
    std::fs::write(place.path("new/n.toml"), GRANT.replace("\"g\"", "\"n\"")).unwrap();
    std::fs::rename(&grants, place.path("old")).unwrap();
    std::fs::rename(place.path("new"), &grants).unwrap();
    wait(&live, &mut seen, |snapshot, _| snapshot.grants.contains_key("n"));
    std::fs::write(grants.join("m.toml"), GRANT.replace("\"g\"", "\"m\"")).unwrap();
    wait(&live, &mut seen, |snapshot, _| snapshot.grants.contains_key("m"));
}

#[test]
fn r163_no_reader_ever_sees_half_of_a_swap() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let place = Place::new();
    place.write("config.toml", "passthrough = ['a.test']\n");
    let live = Live::open(place.home.clone()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // In every configuration there are as many passthrough patterns as grants.
        let whole = || {
            while !stop.load(Ordering::Relaxed) {
                let snapshot = live.snapshot();
                assert_eq!(snapshot.config.passthrough.len(), snapshot.grants.len());
            }
        };
        let reader = scope.spawn(whole);
        for round in 0..20 {
            match round % 2 {
                0 => {
                    place.write("config.toml", "passthrough = ['a.test', 'b.test']\n");
                    place.write("grants/h.toml", &GRANT.replace("\"g\"", "\"h\""));
                }
                _ => {
                    place.write("config.toml", "passthrough = ['a.test']\n");
                    std::fs::remove_file(place.path("config/grants/h.toml")).unwrap();
                }
            }
            assert!(live.reload().error().is_none());
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(live.snapshot().generation, 21);
}

#[test]
#[ignore = "prints a figure: `cargo test --release --lib -- --ignored --nocapture two_hundred`"]
fn two_hundred_grants_load_within_the_budget_of_a_start() {
    let place = Place::new();
    let rules: String = (0..39)
        .map(|n| format!("r{n}($a) <- operation(\"read\"), request_path($a), $a.starts_with(\"/{n}\");\n"))
        .collect();
    for number in 0..200 {
        let text = format!(
            "name = \"g{number}\"\nservice = \"hub\"\ncredential = \"hub/a\"\ndatalog = '''\n{rules}allow if grant(\"g{number}\");\n'''\n"
        );
        place.write(&format!("grants/g{number}.toml"), &text);
    }
    let began = std::time::Instant::now();
    for number in 0..200 {
        let text = std::fs::read_to_string(place.path(&format!("config/grants/g{number}.toml"))).unwrap();
        crate::policy::Grant::parse(&text, "g").unwrap();
    }
    println!("of which reading: {:?}", began.elapsed());
    let began = std::time::Instant::now();
    load(&place.home).unwrap();
    println!("200 grants of 40 statements: {:?}", began.elapsed());
}
