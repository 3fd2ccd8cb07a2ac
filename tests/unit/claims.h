/* Claims of one index, for tests of the winner rule (core/team/settle.h): added up in one summary,
 * of which they ask what wins.
 *
 * Each step of core/team/settle.c has been taken out, and been exchanged with the next one. What
 * fails then:
 *
 *   compare_places
 *     begins for nothing       a_round_waits_for_nobody_whose_loop_does_not_say_its_rounds
 *     a like one ahead         of_two_branches_the_one_that_leads_to_what_looks_like_the_other_...
 *   settle_compare
 *     standing                 any_unit_goes_before_leave, of_marks_the_higher_goes_first
 *     standing, place          a_mark_waits_for_any_unit_wherever_it_stands
 *     a loop not all come to   of_two_loops_one_that_some_ranks_have_no_part_in_goes_first
 *     (of loops only)          a_loop_goes_before_what_is_after_it_also_if_not_all_come_there
 *     rounds                   of_two_epochs_the_earlier_goes_first, in_one_epoch_what_comes_first_...
 *     (not if refused)         one_rank_that_refuses_them_does_so_for_all
 *     the last round           what_nobody_has_come_to_yet_waits_for_the_next_round_...
 *     (not of the first one)   in_the_first_round_it_goes_first_and_that_is_a_guess
 *     place                    within_a_loop_what_comes_first_in_the_program
 *     place, last real         who_is_in_the_loop_goes_before_who_has_left_it
 *     last real                without_places_who_has_issued_last_is_still_in_the_loop
 *     last real, expected      the same
 *     (if they are the same)   of_one_unit_the_place_that_is_expected_names_it
 *     expected                 then_what_the_learner_expects; and with seen
 *     stood at                 a_unit_has_the_name_of_a_place_where_somebody_stands
 *     seen                     then_a_unit_seen_before; and with predicted
 *     predicted                then_what_its_rank_predicts; and with the size
 *     size                     then_the_larger_unit; and with claimants
 *     claimants                then_the_most_claimants; and with the rank
 *     rank                     then_the_lowest_rank
 *   settle_winner
 *     yields                   a_yield_wants_nothing
 *     the earliest epoch       of_one_unit_in_two_epochs_the_earlier_goes_first
 *       no epoch is any        who_says_no_epoch_does_not_hide_that_others_are_out_of_step
 *       under another name     nor_does_another_point_that_is_the_same_unit
 *       its name               of_the_earliest_epoch_the_rule_chooses_the_name
 * *   settle_is_distinct
 *     one sends                a_root_in_a_broadcast_sends_to_those_who_come_there_by_ways_of_their_own
 *     CLAIM_APART              what_a_rank_says_is_apart_from_the_expected_unit_is_another
 *     hidden                   of_a_hidden_place_nothing_is_told
 *     one call                 a_collective_of_a_function_that_both_call_is_one
 *     sequential               within_a_loop_branches_are_one_unit_and_a_sequence_is_two
 *     two conditions           two_conditions_to_which_all_have_come_are_two_units_once_..., but_not_where_...
 *     outside, loops           units_of_a_loop_and_after_it_are_two_where_all_know_one_of_them
 *     (even)                   who_stands_in_front_may_have_come_by_..., nor_need_who_is_behind_a_loop_...
 *       (of this function)     what_a_function_does_that_is_called_there_is_what_it_is_called_for
 *     twins in branches        in_one_round_of_an_even_program_branches_are_one_unit
 *     (nothing shadowed)       nor_where_a_rank_has_been_without_data
 *     (one round)              not_where_ranks_may_be_in_two_rounds, nor_in_loops_in_each_other_...
 *   settle_may_be_one
 *     signature                units_that_look_different_are_no_copies
 *     (nothing shadowed)       nor_where_a_rank_has_been_without_data
 *     common to both           who_makes_the_first_round_in_front_of_the_loop_is_told
 *     has been there           the same; (in no loop) who_is_behind_a_loop_without_a_round_has_not_been_in_it
 *     the end of a loop        who_makes_the_last_round_behind_the_loop_is_told
 *     twins                    one_after_the_other_they_may_be_one_loop_..., a_call_behind_the_loop_...
 *   settle_is_doubtful
 *     parts unseen             to_take_one_unit_for_another_where_they_part_unseen_is_a_guess
 *     sequential               who_goes_into_one_function_from_a_branch_each_may_be_at_two_points_of_it
 *     (where somebody stands)  a_place_where_nobody_stands_says_nothing_of_who_claims_it
 *     reached, shared          who_is_again_where_all_have_been_may_have_gone_round_past_the_other
 *     reached, common          taking_two_conditions_of_a_loop_for_one_is_a_guess_...
 *     branches                 to_take_one_for_the_other_is_a_guess
 *     (in a loop)              but_not_where_there_is_no_loop_to_end
 *     (not the root's)         nor_where_one_is_the_roots_unless_all_have_been_there
 *     (unless it changes)      unless_the_condition_is_known_to_change
 *     (not if it is fixed)     nor_where_each_rank_stays_in_its_branch_unless_all_have_been_there
 *     (of this function)       what_a_function_is_given_may_be_something_else_the_next_time
 *     into one function        who_goes_into_one_function_from_a_branch_each_may_be_at_two_points_of_it
 *     (by more steps)          also_where_one_goes_there_by_more_steps_than_the_other
 *     branches (of loops)      where_nobody_counts_rounds_and_the_condition_may_change_they_are_one_by_...
 *     a loop, it changes       of_a_loop_in_a_branch_it_is_a_guess_unless_the_condition_stays
 *     common, no order         two_places_that_all_come_to_may_be_two_conditions_if_...
 *     no order                 without_an_order_to_take_one_for_another_is_a_guess
 *     a loop, no order         without_an_order_to_take_a_unit_of_a_loop_for_one_after_it_is_...
 *     a loop, reached          to_take_a_unit_of_a_loop_for_one_that_may_come_after_it_is_a_guess
 *   settle_is_guess
 *     nothing known            then_what_the_learner_expects
 *     last real                without_places_who_has_issued_last_is_still_in_the_loop
 *     of one call              which_round_of_one_call_goes_first_is_a_guess
 *     a later loop goes on     of_two_loops_the_one_that_goes_on
 *     (of loops only)          who_has_gone_round_to_a_loop_waits_for_what_is_left_of_the_epoch
 *     (not if counted)         where_all_count_the_rounds_a_loop_that_not_all_had_waits_for_what_comes_before
 *     marks, LEAVE             any_unit_goes_before_a_mark_and_any_mark_before_leave
 *     out of step              of_one_unit_in_two_epochs_the_earlier_goes_first
 *   settle_is_unanimous
 *     yields                   a_yield_wants_nothing
 *     those left out           who_is_left_out_of_a_summary_has_not_agreed
 *   settle_add
 *     order                    units_stay_in_a_summary_where_marks_leave_no_room
 *     epoch, kinds             of_one_unit_in_two_epochs_..., a_yield_wants_nothing
 */
#ifndef TESTS_UNIT_CLAIMS_H
#define TESTS_UNIT_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/team/settle.h"

enum { A = 1, B = 2, C = 3, LEAVE = 0 };

extern struct settle settle;

/* Nothing is claimed. */
void begin(void);

/* What the next rank claims, from rank 0 on. Without a signature it is another for each hash. */
void add(struct claimed claim);

const struct claimed *winner(void);
bool is_guess(void);
bool is_unanimous(void);

#endif
