/* Answer: a decision as the one line of compact JSON that users and scripts read (contract, section 3, without node and
 * region).
 *
 * Thread: any. Memory: the caller's. Integers only; every name in an answer is [a-z0-9-], so nothing needs escaping. */
#ifndef HR_NODE_ANSWER_H
#define HR_NODE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "limiter/limiter.h"

/* Room for any answer and its end of line: HR_TOUCHED_MAX rows of at most 384 bytes, and the decision around them. */
#define HR_ANSWER_BYTES_MAX ((size_t)HR_TOUCHED_MAX * 384 + 512)

/* Write the answer and '\n' at ret_line, which has HR_ANSWER_BYTES_MAX bytes of room. How many bytes were written. No
 * NUL follows. */
size_t hr_answer_decision(const struct hr_decision *decision, char *ret_line);
size_t hr_answer_released(bool released, char *ret_line);

const char *hr_action_name(enum hr_action action);
const char *hr_mode_name(enum hr_mode mode);

#endif
