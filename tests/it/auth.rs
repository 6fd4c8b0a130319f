//! Stores of credentials, and tokens that are renewed.

use std::{
    fs,
    path::PathBuf,
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, UNIX_EPOCH},
};

use expect_test::expect;
use serde_json::json;
use steerage::{
    AbortController, AbortSignal, Error, ErrorKind, Secret,
    auth::{Credential, CredentialStore, Credentials, FileStore, MemoryStore, Token},
    testing::clock::RecordingClock,
};

/// Nothing takes longer unless it hangs.
const LIMIT: Duration = Duration::from_secs(30);
/// The time of these tests, in milliseconds.
const NOW: u64 = 1_000_000_000;
const MINUTE: u64 = 60_000;

/// A folder that is gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("steerage-auth-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("deep").join("auth.json")
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.file())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn token(access: &str, expires: u64) -> Token {
    Token {
        access: access.into(),
        refresh: Some("refresh-1".into()),
        expires: Some(expires),
        ..Token::default()
    }
}

fn check_store(store: &dyn CredentialStore) {
    assert!(store.read("a").unwrap().is_none());
    store.write("b", Credential::key("key-b")).unwrap();
    store.write("a", Credential::Token(token("access-a", NOW))).unwrap();
    store.write("b", Credential::key("key-c")).unwrap();
    assert_eq!(store.names().unwrap(), ["b", "a"]);
    assert_eq!(store.read("b").unwrap().unwrap().secret().unwrap().expose(), "key-c");
    let failed = store.modify("b", &mut |before| {
        assert_eq!(before, Some(Credential::key("key-c")));
        Err(Error::new(ErrorKind::Auth, "no"))
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Auth);
    assert_eq!(store.read("b").unwrap(), Some(Credential::key("key-c")));
    let inner = store.modify("b", &mut |before| store.delete("a").map(|()| before));
    assert_eq!(inner.unwrap_err().kind(), ErrorKind::WouldDeadlock);
    store.delete("b").unwrap();
    store.delete("b").unwrap();
    assert_eq!(store.names().unwrap(), ["a"]);
}

#[test]
fn a_store_holds_one_credential_for_each_name() {
    check_store(&MemoryStore::default());
    check_store(&Folder::new().store());
}

#[test]
fn a_panic_in_a_change_does_not_lock_the_store() {
    let store = MemoryStore::default();
    let change = || store.modify("a", &mut |_| panic!("no"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(change)).is_err());
    store.write("a", Credential::key("key-a")).unwrap();
}

#[test]
fn a_file_is_read_again_as_it_was_written() {
    let folder = Folder::new();
    let env = vec![("CLOUDFLARE_ACCOUNT_ID".to_owned(), "account".to_owned())];
    folder.store().write("a", Credential::Key { key: Some("key-a".into()), env }).unwrap();
    let extra = json!({"account": {"id": 1}}).as_object().unwrap().clone();
    let token = Token { extra, ..token("access-b", NOW) };
    folder.store().write("b", Credential::Token(token.clone())).unwrap();
    expect![[r#"
        {
          "a": {
            "type": "api_key",
            "key": "key-a",
            "env": {
              "CLOUDFLARE_ACCOUNT_ID": "account"
            }
          },
          "b": {
            "type": "oauth",
            "access": "access-b",
            "refresh": "refresh-1",
            "expires": 1000000000,
            "account": {
              "id": 1
            }
          }
        }
    "#]]
    .assert_eq(&fs::read_to_string(folder.file()).unwrap());
    assert_eq!(folder.store().read("b").unwrap(), Some(Credential::Token(token)));
    let left: Vec<_> = fs::read_dir(folder.file().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "auth.json" && name != "auth.json.lock")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let mode = || fs::metadata(folder.file()).unwrap().permissions().mode() & 0o777;
    folder.store().write("a", Credential::key("key-a")).unwrap();
    assert_eq!(mode(), 0o600);
    fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o644)).unwrap();
    folder.store().write("a", Credential::key("key-b")).unwrap();
    assert_eq!(mode(), 0o600);
}

#[cfg(unix)]
#[test]
fn a_link_to_the_file_stays_a_link() {
    let folder = Folder::new();
    folder.store().write("a", Credential::key("key-a")).unwrap();
    let link = folder.0.join("link.json");
    std::os::unix::fs::symlink(folder.file(), &link).unwrap();
    FileStore::new(&link).write("a", Credential::key("key-b")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(folder.store().read("a").unwrap(), Some(Credential::key("key-b")));
}

#[test]
fn what_others_wrote_into_the_file_stays() {
    let folder = Folder::new();
    fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
    fs::write(folder.file(), r#"{"x": {"type": "passkey", "blob": 1}}"#).unwrap();
    let store = folder.store();
    assert!(store.names().unwrap().is_empty());
    store.write("a", Credential::key("key-a")).unwrap();
    store.delete("a").unwrap();
    expect![[r#"
        {
          "x": {
            "type": "passkey",
            "blob": 1
          }
        }
    "#]]
    .assert_eq(&fs::read_to_string(folder.file()).unwrap());
}

#[test]
fn a_broken_file_is_left_alone_and_not_quoted() {
    let folder = Folder::new();
    fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
    fs::write(folder.file(), r#"{"a": sk-12345678"#).unwrap();
    let error = folder.store().write("a", Credential::key("key-a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("auth.json"), "{error}");
    assert!(!format!("{error:?}").contains("sk-1234"), "{error:?}");
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), r#"{"a": sk-12345678"#);
}

#[test]
fn no_change_is_lost_when_many_write() {
    let folder = Folder::new();
    let count = |credential: Option<Credential>| -> u32 {
        credential.map_or(0, |it| it.secret().unwrap().expose().parse().unwrap())
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // A store of its own, as another process has.
                let store = folder.store();
                for _ in 0..25 {
                    let next = |before| Ok(Some(Credential::key((count(before) + 1).to_string())));
                    store.modify("a", &mut { next }).unwrap();
                }
            });
        }
    });
    assert_eq!(count(folder.store().read("a").unwrap()), 100);
}

fn credentials(store: impl CredentialStore + 'static) -> Credentials {
    let now = UNIX_EPOCH + Duration::from_millis(NOW);
    Credentials::with_clock(store, Arc::new(RecordingClock::at(now)))
}

/// Credentials with one token under `login`.
fn with_token(token: Token) -> Credentials {
    let store = MemoryStore::default();
    store.write("login", Credential::Token(token)).unwrap();
    credentials(store)
}

fn get(credentials: &Credentials) -> Result<String, Error> {
    let credential = credentials.get("login", &AbortSignal::never())?;
    Ok(credential.unwrap().secret().unwrap().expose().to_owned())
}

#[test]
fn a_token_with_time_left_is_given_out_as_it_is() {
    let credentials = with_token(token("old", NOW + 6 * MINUTE));
    credentials.renew_with("login", |_, _| panic!("not needed"));
    assert_eq!(get(&credentials).unwrap(), "old");
    let forever = with_token(Token { expires: None, ..token("old", 0) });
    assert_eq!(get(&forever).unwrap(), "old");
}

#[test]
fn a_token_is_renewed_once_for_all_who_wait() {
    let credentials = with_token(token("old", NOW + 4 * MINUTE));
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, (open, gate)) = (asked.clone(), mpsc::sync_channel::<()>(0));
    let gate = std::sync::Mutex::new(gate);
    credentials.renew_with("login", move |old, _| {
        assert_eq!(old.refresh, Some(Secret::new("refresh-1")));
        count.fetch_add(1, Ordering::SeqCst);
        gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Ok(token("new", NOW + 60 * MINUTE))
    });
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..8).map(|_| scope.spawn(|| get(&credentials).unwrap())).collect();
        open.send(()).unwrap();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), "new");
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let stored = credentials.store().read("login").unwrap();
    assert_eq!(stored, Some(Credential::Token(token("new", NOW + 60 * MINUTE))));
}

#[test]
fn an_abort_ends_the_wait_and_not_the_renewal() {
    let credentials = with_token(token("old", NOW));
    let (started, has_started) = mpsc::sync_channel(1);
    let (open, gate) = mpsc::sync_channel::<()>(0);
    let gate = std::sync::Mutex::new(gate);
    credentials.renew_with("login", move |_, _| {
        started.send(()).unwrap();
        gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        Ok(token("new", NOW + 60 * MINUTE))
    });
    let controller = AbortController::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| credentials.get("login", &controller.signal()));
        has_started.recv_timeout(LIMIT).unwrap();
        controller.abort();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
    });
    open.send(()).unwrap();
    assert_eq!(get(&credentials).unwrap(), "new");
}

#[test]
fn a_renewal_that_fails_matters_only_when_the_token_is_over() {
    let revoked = |_: &Token, _: &AbortSignal| Err(Error::new(ErrorKind::Auth, "revoked"));
    let lasting = with_token(token("old", NOW + MINUTE));
    lasting.renew_with("login", revoked);
    assert_eq!(get(&lasting).unwrap(), "old");
    let over = with_token(token("old", NOW));
    over.renew_with("login", revoked);
    let error = get(&over).unwrap_err();
    assert_eq!((error.kind(), error.to_string()), (ErrorKind::Auth, "revoked".to_owned()));
    // The next one tries again.
    over.renew_with("login", |_, _| Ok(token("new", NOW + 60 * MINUTE)));
    assert_eq!(get(&over).unwrap(), "new");
}

#[test]
fn a_token_that_nobody_renews_says_so() {
    let error = get(&with_token(token("old", NOW))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    expect!["the token of `login` has expired and nobody renews it: log in again, or set Credentials::renew_with"].assert_eq(&error.to_string());
}

#[test]
fn a_renewal_that_panics_is_an_error() {
    let credentials = with_token(token("old", NOW));
    credentials.renew_with("login", |_, _| panic!("no login"));
    let error = get(&credentials).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Callback);
    assert!(error.to_string().contains("no login"), "{error}");
}

#[test]
fn a_token_that_another_process_renewed_is_taken() {
    let folder = Folder::new();
    folder.store().write("login", Credential::Token(token("old", NOW))).unwrap();
    let other = folder.store();
    let credentials = credentials(folder.store());
    credentials.renew_with("login", |_, _| panic!("the other process did it"));
    let new = Credential::Token(token("new", NOW + 60 * MINUTE));
    thread::scope(|scope| {
        let mut asking = None;
        let change = other.modify("login", &mut |_| {
            asking = Some(scope.spawn(|| get(&credentials)));
            Ok(Some(new.clone()))
        });
        change.unwrap();
        assert_eq!(asking.unwrap().join().unwrap().unwrap(), "new");
    });
}

#[test]
fn nothing_of_a_credential_is_shown() {
    let credentials = [Credential::key("sk-12345678"), Credential::Token(token("sk-12345678", 0))];
    let shown = format!("{credentials:?}");
    assert!(!shown.contains("sk-1234") && !shown.contains("refresh-1"), "{shown}");
}
