//! Every case by its id: which test shows it, or why none does.

/// The ids of the list, by its sections.
const IDS: &[(&str, &[u8])] = &[
    ("F", &[1, 3, 4, 5, 7, 8, 9]),
    ("G", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 18, 19]),
    ("H", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
];

/// What shows a case.
enum Shown {
    /// A test of this name, by the end of its path.
    Test(&'static str),
    /// Nothing here, for this reason.
    No(&'static str),
}

use Shown::{No, Test};

const CASES: &[(&str, Shown)] = &[
    (
        "F1",
        Test(
            "history::a_run_that_is_aborted_among_its_calls_leaves_each_with_one_result_and_goes_on",
        ),
    ),
    ("F3", Test("saved::entries_that_are_no_messages_are_skipped_and_named")),
    (
        "F4",
        Test(
            "history::reasoning_comes_back_in_the_field_it_came_in_for_the_model_that_it_came_from",
        ),
    ),
    ("F5", Test("history::a_failed_response_is_not_sent_and_neither_are_results_of_its_calls")),
    ("F7", Test("history::thinking_of_another_model_is_not_sent_as_text")),
    ("F8", Test("history::an_agent_goes_on_after_a_failed_response")),
    ("F9", Test("history::a_second_prompt_is_refused_while_a_run_is_active")),
    ("G1", Test("tools::a_stalled_call_costs_its_sibling_nothing_and_the_abort_no_time")),
    ("G2", Test("tools::a_call_that_ignores_its_time_limit_is_left_alone_and_the_model_told")),
    ("G3", Test("tools::an_abort_during_preparation_starts_no_sibling")),
    ("G4", Test("tools::a_run_is_over_only_when_the_siblings_of_a_stopped_call_are")),
    ("G5", Test("tools::a_batch_with_a_sequential_tool_runs_call_by_call")),
    ("G6", Test("tools::a_call_that_is_complete_only_after_the_abort_does_not_run")),
    ("G7", Test("tools::a_hook_sees_the_message_whose_call_it_decides_about")),
    ("G8", Test("tools::arguments_that_are_no_json_are_a_failed_call_with_the_text")),
    ("G9", Test("tools::a_missing_key_is_named")),
    ("G10", Test("turns::a_call_of_a_response_that_was_cut_off_never_runs_and_the_model_is_told")),
    ("G12", Test("turns::waiting_for_a_run_waits_for_its_last_listener")),
    ("G13", Test("turns::waiting_for_a_run_waits_for_its_last_listener")),
    ("G15", No("Bedrock comes later; B5 and D6 show it for the others")),
    (
        "G17",
        Test("tools::a_panic_of_a_tool_is_an_error_result_and_its_sibling_and_the_agent_go_on"),
    ),
    ("G18", Test("turns::images_of_a_message_that_steers_reach_the_model")),
    (
        "G19",
        Test("turns::nothing_is_asked_after_an_abort_even_of_a_stream_function_that_ignores_it"),
    ),
    ("H1", Test("queues::no_queued_message_is_lost_whenever_the_abort_comes")),
    ("H2", Test("queues::no_queued_message_is_lost_whenever_the_abort_comes")),
    ("H3", Test("queues::what_is_queued_after_an_abort_stays_queued")),
    ("H4", Test("queues::a_message_that_comes_while_a_tool_runs_is_in_the_next_request")),
    ("H5", Test("queues::a_receipt_says_what_became_of_a_message")),
    ("H6", Test("queues::a_message_that_comes_while_a_tool_runs_is_in_the_next_request")),
    ("H7", Test("queues::queues_are_read_on_after_the_transcript_was_replaced")),
    ("H8", Test("queues::queued_text_can_be_taken_back_from_an_agent_that_does_not_stop")),
    ("H9", Test("aborts::a_call_that_was_interrupted_is_not_told_as_one_that_never_ran")),
    ("H10", Test("aborts::an_abort_ends_a_silent_stream_and_the_agent_takes_the_next_prompt")),
    ("H11", Test("aborts::a_soft_stop_lets_the_turn_end")),
    ("H12", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    ("H13", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    ("H14", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    ("H15", Test("aborts::an_observer_that_nobody_reads_does_not_hold_the_run_up")),
    ("H16", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    ("H17", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    ("H18", Test("aborts::wherever_an_abort_comes_there_is_one_end_that_says_so")),
    (
        "H19",
        Test(
            "history::a_run_that_is_aborted_among_its_calls_leaves_each_with_one_result_and_goes_on",
        ),
    ),
];

#[test]
fn every_case_is_accounted_for() {
    let wanted: Vec<String> = IDS
        .iter()
        .flat_map(|(section, numbers)| numbers.iter().map(move |it| format!("{section}{it}")))
        .collect();
    let listed: Vec<&str> = CASES.iter().map(|(id, _)| *id).collect();
    assert_eq!(listed, wanted);
}

/// The table names tests that exist: a renamed one would leave its case without any.
#[test]
fn the_tests_that_show_a_case_exist() {
    let mut missing = Vec::new();
    for (id, shown) in CASES {
        match shown {
            Test(path) => {
                let (module, name) = path.rsplit_once("::").expect("a module and a name");
                if !is_test(module, name) {
                    missing.push(format!("{id}: {path}"));
                }
            }
            No(reason) => assert!(reason.len() > 10, "{id} has no reason"),
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn is_test(module: &str, name: &str) -> bool {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/");
    let file = module.replace("::", "/");
    [format!("{root}field/{file}.rs"), format!("{root}{file}.rs")].iter().any(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains(&format!("#[test]\nfn {name}()"))
    })
}
