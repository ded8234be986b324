# SPDX-License-Identifier: BSD-2-Clause
"""Why a requirement has no case: the one table of reasons. `mrc conformance list --missing` prints it."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "MRC-WIRE-21": (
        "SE and M are sent as 0 (MRC-WIRE-22) and change nothing on receipt (MRC-WIRE-20/received sets both), "
        "so no packet shows which of the two bits an endpoint takes for which"
    ),
    "MRC-WIRE-34": (
        "how opcodes that are not MRC's are read; an endpoint drops such packets (MRC-WIRE-17). Held by "
        "test_standard_opcodes_keep_se_first_whatever_the_switch_says of tests/wire/test_wire_one_packet.py"
    ),
    "MRC-RESP-12": (
        "the order of two steps inside the target: no packet shows it, and by the time a script can look at the memory "
        "both have been taken"
    ),
    "MRC-TRIM-01..03": (
        "what a switch does with a packet it trims: the target is an endpoint, and what it makes of such packets is "
        "MRC-TRIM-04 to MRC-TRIM-07"
    ),
    "MRC-TRIM-08": (
        "what is configured everywhere; at an endpoint it is MRC-ECN-11/trimmed. Held by "
        "test_a_configured_size_and_codepoint of tests/lab/test_lab_bpf_program.py and "
        "test_the_codepoints_are_the_profiles of tests/capture/test_capture_trimmed.py"
    ),
    "MRC-TRIM-09": (
        "what a switch does with a packet smaller than it keeps; what an endpoint makes of it is MRC-TRIM-06. Held by "
        "test_a_configured_size_and_codepoint of tests/lab/test_lab_bpf_program.py"
    ),
    "MRC-SRV6-03": (
        "what a switch does with a uSID: the target is an endpoint, which makes the address (MRC-SRV6-08) and gets "
        "what is left of it. Held by test_every_path_is_shifted_at_every_hop of tests/lab/test_lab_forwarding.py and "
        "test_destinations_shrink_by_one_usid_a_hop of tests/live/test_live_on_the_wire.py"
    ),
    "MRC-SRV6-12": (
        "what the switch does at which the first container ends; the SRH that it finds is MRC-SRV6-11. Held by "
        "test_the_end_of_the_first_container_takes_the_next_from_the_header of tests/lab/test_lab_srh.py and "
        "test_the_routing_header_on_the_wire of tests/live/test_live_modes.py"
    ),
    "MRC-ECN-04": (
        "where switches mark: an endpoint cannot tell on which hop a packet was marked. Held by "
        "test_a_slow_spine_marks_and_trims_inside_the_fabric of tests/sim/test_sim_fabric.py and "
        "test_not_on_the_last_hop of tests/lab/test_lab_bpf_program.py"
    ),
    "MRC-ECN-08": (
        "what a switch that trims writes; an endpoint that reads it is MRC-TRIM-05 and MRC-NACK-12. Held by "
        "test_the_last_hop_trims_with_its_own_codepoint_and_does_not_mark of tests/sim/test_sim_fabric.py and "
        "test_srv6_byte_by_byte of tests/lab/test_lab_bpf_program.py"
    ),
    "MRC-NAME-01..04": (
        "what fields are called in Scapy, JSON and filters: no packet carries a name. Held by "
        "test_a_vector_over_ethernet of tests/capture/test_capture_fields.py and test_dissection_gives_the_fields of "
        "tests/layers/test_layers_vectors.py"
    ),
    "MRC-NAME-05": (
        "how opcodes that are not MRC's are dissected; an endpoint drops such packets (MRC-WIRE-17). Held by "
        "test_standard_opcodes_have_neither_rtx_nor_ts of tests/wire/test_wire_packets.py"
    ),
    "MRC-NAME-06": (
        "about the report of a trimmed packet, not about what is sent. Held by test_a_whole_packet_as_raw_ip of "
        "tests/capture/test_capture_fields.py"
    ),
    "MRC-NAME-07..10": (
        "how a packet looks in JSON, which no packet shows; its bits are MRC-SACK-01 to MRC-SACK-14. Held by "
        "test_a_vector_over_ethernet of tests/capture/test_capture_fields.py, which has whole documents"
    ),
    "MRC-NAME-11": (
        "what fields are called in Wireshark: no packet carries a name. Held by "
        "test_its_names_are_those_of_the_codec_below_mrc of tests/capture/test_capture_wireshark.py"
    ),
    "MRC-PATH-02": (
        "how large a profile is, and how large its active set, depends on the configuration of the QP and on the "
        "hardware: a script gives both"
    ),
    "MRC-SACK-29": (
        "a switch of this project's endpoint, whose default is MRC-SACK-15. Held by "
        "test_a_sack_is_due_when_the_bytes_since_the_last_one_reach_the_threshold of "
        "tests/endpoint/responder/test_endpoint_sack_triggers.py"
    ),
    "MRC-NACK-24": (
        "a switch of this project's endpoint, whose default is MRC-NACK-23. Held by "
        "test_an_unknown_reason_may_be_fatal of tests/endpoint/requestor/test_endpoint_requestor_nacks.py"
    ),
    "MRC-MPR-07": (
        "a switch of this project's endpoint, whose default is MRC-MPR-05 and -06. Held by "
        "test_the_right_edge_never_retreats_where_shrinking_is_not_followed of "
        "tests/endpoint/requestor/test_endpoint_requestor_mpr.py"
    ),
    "MRC-RETRY-10": (
        "a switch of this project's endpoint, whose default is MRC-RETRY-01. Held by "
        "test_the_budget_may_be_the_qps_and_is_whole_again_when_cack_psn_moves of "
        "tests/endpoint/requestor/test_endpoint_requestor_budget.py"
    ),
    "MRC-PATH-32": (
        "a parameter of this project's endpoint, whose default is MRC-PATH-08. Held by "
        "test_an_ev_may_stay_in_skip_for_a_least_time of tests/endpoint/paths/test_endpoint_skip.py"
    ),
    "MRC-CC-35..41": (
        "parameters that few controllers have: what they are by default is MRC-CC-04, -10, -11, -18, -20 and -26. Held "
        "by tests/endpoint/congestion/test_nscc_consortium.py"
    ),
    "MRC-CTL-01..35": (
        "the controller's calls, their states and their errors are an API on the host: no packet shows them. Held by "
        "tests/control and tests/live/test_live_ctl.py"
    ),
    "MRC-EV-14": (
        "how one value of a controller's call is read: a script leaves max_val out where nothing is bounded. Held by "
        "test_a_greatest_value_of_0_bounds_nothing of tests/wire/test_wire_entropy.py"
    ),
    "MRC-QP-07": (
        "what a program's call means that leaves an attribute out: a script gives all of them. Held by "
        "test_what_a_peer_can_do_is_on_unless_it_is_turned_off of tests/verbs/test_verbs_states.py"
    ),
    "MRC-QP-08": (
        "what a program's call means that leaves attributes out: a script gives all of them. Held by "
        "test_attributes_that_are_never_given_have_defaults of tests/verbs/test_verbs_states.py"
    ),
    "MRC-API-01..04": (
        "the C interface and the memory it shares with the endpoint are on the host: no packet shows them. Held by "
        "tests/capi"
    ),
}
