//! Every case by its id: which test shows it, or why none does.

/// The ids of the list, by its sections.
const IDS: &[(&str, &[u8])] = &[
    ("A", &[1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14, 17, 18]),
    (
        "B",
        &[1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 31],
    ),
    ("C", &[1, 2, 3, 5, 6, 7, 8, 10]),
    ("D", &[1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 14, 15]),
    ("E", &[1, 2, 4, 6, 7, 8, 9, 11, 12, 13]),
    ("F", &[1, 3, 4, 5, 7, 8, 9]),
    ("G", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 17, 18, 19]),
    ("H", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
    ("I", &[1, 2, 3, 4, 5, 6, 8, 9, 10]),
    ("J", &[1, 2, 3, 5, 6]),
    ("K", &[1, 3, 4]),
];

/// What shows a case.
enum Shown {
    /// A test of this name, by the end of its path.
    Test(&'static str),
    /// A recorded case, by its folder and name.
    Recorded(&'static str),
    /// Nothing here, for this reason.
    No(&'static str),
}

use Shown::{No, Recorded, Test};

const CASES: &[(&str, Shown)] = &[
    ("A1", Test("transport::an_event_is_whole_however_it_was_cut")),
    ("A2", Test("transport::bytes_that_are_no_utf8_harm_their_line_only")),
    ("A3", Test("transport::an_event_is_whole_however_it_was_cut")),
    ("A4", Test("transport::an_event_is_whole_however_it_was_cut")),
    ("A6", Test("transport::empty_data_means_nothing_and_a_space_after_the_colon_is_not_needed")),
    ("A7", Test("transport::a_line_that_never_ends_is_a_limit")),
    ("A9", Test("transport::comments_keep_a_connection_alive_beyond_its_idle_limit")),
    ("A10", Test("transport::comments_do_not_hide_a_stream_that_stands_still")),
    ("A11", Test("transport::an_error_in_a_stream_does_not_wait_for_its_end")),
    (
        "A12",
        Test("transport::an_answer_that_broke_off_says_so_may_be_retried_and_names_its_request"),
    ),
    ("A13", Test("src/http/tests/failure::a_server_that_lets_wait_for_the_head_times_out")),
    ("A14", Test("src/http/tests/failure::a_body_that_stands_still_times_out")),
    ("A17", Test("src/http/tests/abort::a_chunked_body_that_stands_still_is_aborted")),
    ("A18", Test("src/http/tests/failure::a_body_that_stands_still_times_out")),
    ("B1", Test("chat_completions::no_arguments_are_an_empty_object")),
    ("B2", Test("chat_completions::calls_without_an_index_are_told_apart_by_id_and_name")),
    ("B3", Test("chat_completions::the_same_index_with_another_id_and_a_name_is_another_call")),
    ("B5", Test("chat_completions::the_index_tells_which_call_a_piece_belongs_to")),
    ("B6", Test("chat_completions::calls_are_run_whatever_the_finish_reason_says_but_length")),
    ("B7", Test("chat_completions::chunks_may_lack_anything")),
    ("B9", Test("chat_completions::an_error_in_a_stream_keeps_kind_code_type_and_parameter")),
    ("B10", Test("chat_completions::an_error_in_a_stream_keeps_kind_code_type_and_parameter")),
    ("B11", Test("chat_completions::chunks_may_lack_anything")),
    ("B13", Test("chat_completions::usage_that_comes_last_is_read")),
    ("B14", Test("chat_completions::what_a_server_refuses_can_be_switched_off")),
    ("B15", Test("chat_completions::chunks_may_lack_anything")),
    ("B17", Test("chat_completions::content_beside_the_finish_reason_counts")),
    ("B19", Test("chat_completions::reasoning_is_read_from_either_field_and_never_twice")),
    ("B20", Test("chat_completions::broken_arguments_of_the_past_go_out_as_an_empty_object")),
    ("B21", Test("chat_completions::each_call_has_an_id_of_its_own")),
    ("B23", Test("chat_completions::broken_arguments_fail_their_call_and_not_the_response")),
    ("B24", Recorded("openai-completions/req-tools-strict-unsupported")),
    ("B25", Test("chat_completions::what_a_server_refuses_can_be_switched_off")),
    ("B26", Test("chat_completions::what_a_server_refuses_can_be_switched_off")),
    ("B27", Recorded("openai-completions/req-thinking-format-zai")),
    (
        "B28",
        Test(
            "chat_completions::a_finish_reason_is_an_end_without_an_end_mark_and_no_finish_reason_is_none",
        ),
    ),
    ("B29", Test("chat_completions::each_call_has_an_id_of_its_own")),
    ("B31", Test("chat_completions::a_call_of_a_response_that_was_not_finished_does_not_run")),
    ("C1", Test("openai_responses::reasoning_goes_back_with_what_followed_it_or_not_at_all")),
    ("C2", Test("openai_responses::every_call_has_an_id_of_its_own")),
    ("C3", Test("openai_responses::an_end_without_output_takes_nothing_back")),
    ("C5", Test("openai_responses::arguments_that_come_whole_are_enough")),
    ("C6", Test("openai_responses::a_call_whose_arguments_are_cut_does_not_run")),
    ("C7", Test("openai_responses::a_failed_response_says_why")),
    ("C8", Test("openai_responses::images_of_a_result_go_with_it")),
    ("C10", Test("openai_responses::ids_have_the_form_that_the_provider_takes")),
    ("D1", Test("transport::an_error_in_a_stream_does_not_wait_for_its_end")),
    ("D2", Test("retry::an_overloaded_vendor_is_asked_again_and_then_told_as_such")),
    (
        "D3",
        Test("transport::an_answer_that_broke_off_says_so_may_be_retried_and_names_its_request"),
    ),
    ("D4", Test("anthropic::the_pieces_of_arguments_are_parsed_as_one_text")),
    ("D6", Test("anthropic::the_pieces_of_arguments_are_parsed_as_one_text")),
    ("D7", Test("anthropic::arguments_are_mended_or_fail_their_call")),
    ("D8", Test("anthropic::thinking_comes_back_byte_for_byte_and_in_its_place")),
    ("D9", Test("anthropic::a_signature_is_kept_when_the_stream_ends_early")),
    ("D10", Test("anthropic::thinking_comes_back_byte_for_byte_and_in_its_place")),
    ("D12", Test("anthropic::every_stop_reason_keeps_the_content_and_the_vendor_s_word")),
    ("D14", Test("anthropic::thinking_goes_without_temperature_and_leaves_room_for_the_answer")),
    ("D15", Test("anthropic::the_model_is_shown_arguments_that_cannot_be_read")),
    ("E1", Test("google::odd_chunks_are_understood")),
    ("E2", Test("google::an_answer_without_an_end_is_none")),
    ("E4", Test("google::odd_chunks_are_understood")),
    ("E6", Test("google::signatures_go_back_where_they_came_from")),
    (
        "E7",
        No(
            "the recordings send calls of other models unsigned, and a difference to them is a fault",
        ),
    ),
    ("E8", Test("google::odd_chunks_are_understood")),
    ("E9", Test("google::a_signed_text_is_text")),
    ("E11", Test("google::a_result_is_wrapped_text")),
    ("E12", No("of Ollama's own API; its models are reached by chat completions")),
    ("E13", No("of Ollama's own API; its models are reached by chat completions")),
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
    ("G15", Test("anthropic::blocks_that_come_in_turn_keep_their_own_pieces")),
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
    ("I1", Test("retry::a_pause_that_the_server_asks_for_is_made")),
    ("I2", Test("retry::a_pause_beyond_the_limit_fails_at_once_and_names_both")),
    ("I3", Test("retry::a_pause_that_the_server_asks_for_is_made")),
    ("I4", Test("retry::too_many_tokens_in_a_minute_is_no_overflow_and_too_many_in_a_prompt_is")),
    ("I5", Test("retry::an_overloaded_vendor_is_asked_again_and_then_told_as_such")),
    ("I6", No("of compaction, which is a feature of its own; I4 and I8 show what may start one")),
    ("I8", Test("retry::an_overflow_may_come_as_a_finish_reason")),
    ("I9", Test("retry::what_has_begun_is_not_asked_for_again")),
    ("I10", Test("retry::an_abort_ends_a_pause")),
    ("J1", Test("schema::arguments_reach_the_tool_in_the_form_its_schema_asks_for")),
    ("J2", Test("schema::arguments_reach_the_tool_in_the_form_its_schema_asks_for")),
    ("J3", Test("schema::a_derived_schema_goes_out_whole_and_takes_what_it_describes")),
    ("J5", Test("schema::a_schema_that_asks_for_nothing_checks_nothing")),
    ("J6", Test("schema::the_schema_of_an_answer_keeps_the_rules_of_tools")),
    ("K1", Test("mcp::stdio::what_the_server_started_goes_with_it")),
    ("K3", Test("mcp::stdio::all_open_calls_fail_when_the_server_dies")),
    ("K4", Test("mcp::stdio::a_dropped_client_ends_a_server_that_does_not_want_to")),
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
            Recorded(path) => {
                let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/conformance/wire/");
                if !std::path::Path::new(&format!("{root}{path}.json")).exists() {
                    missing.push(format!("{id}: {path}"));
                }
            }
            No(reason) => assert!(reason.len() > 10, "{id} has no reason"),
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn is_test(module: &str, name: &str) -> bool {
    let file = module.replace("::", "/");
    ["tests/it/field/", "tests/it/", ""].iter().any(|folder| {
        let path = format!("{}/{folder}{file}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.contains(&format!("#[test]\nfn {name}()"))
    })
}
