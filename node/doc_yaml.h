/* Doc: one YAML document as a small read-only tree whose nodes know their line and column, for files that people
 * write: limits, test cases, a node's own file.
 *
 * Strict on purpose: one document for each file, no aliases, no tags, nothing deeper than HR_DOC_DEPTH_MAX, keys are
 * text. A scalar stays text as written; what it means is the reader's to say. Everything that is wrong comes back as
 * one problem with FILE:LINE:COLUMN (from 1, columns in characters).
 *
 * Thread: any, one call at a time for each doc. Memory: heap, bounded by HR_DOC_NODES_MAX and the text, freed by
 * hr_doc_free. The text handed in is not kept; spans that come out live as long as the doc. */
#ifndef HR_NODE_DOC_YAML_H
#define HR_NODE_DOC_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "node/problem.h"

#define HR_DOC_BYTES_MAX (16 * 1024 * 1024)
#define HR_DOC_DEPTH_MAX 16
#define HR_DOC_NODES_MAX (1024 * 1024)

struct hr_doc;

/* Names a node of one doc; 0 names none, and may be handed to none of the functions below. */
typedef uint32_t hr_doc_node;

enum hr_doc_kind { HR_DOC_SCALAR, HR_DOC_LIST, HR_DOC_MAP };

/* Reads a whole file, or bytes in memory that problems call `path`. NULL on failure, with *ret_problem filled in. An
 * empty document is a problem. */
struct hr_doc *hr_doc_load(const char *path, struct hr_problem *ret_problem);
struct hr_doc *hr_doc_parse(struct hr_span text, const char *path, struct hr_problem *ret_problem);

/* NULL is allowed. */
void hr_doc_free(struct hr_doc *doc);

/* Walking. A list: first, then next until 0. A map: the same over its keys, each with its value. */
hr_doc_node hr_doc_root(const struct hr_doc *doc);
enum hr_doc_kind hr_doc_kind(const struct hr_doc *doc, hr_doc_node node);
uint32_t hr_doc_count(const struct hr_doc *doc, hr_doc_node node); /* items, or pairs; 0 for a scalar */
hr_doc_node hr_doc_first(const struct hr_doc *doc, hr_doc_node list_or_map);
hr_doc_node hr_doc_next(const struct hr_doc *doc, hr_doc_node item_or_key);
hr_doc_node hr_doc_value(const struct hr_doc *doc, hr_doc_node key);
uint32_t hr_doc_line(const struct hr_doc *doc, hr_doc_node node);

/* The text of a scalar without its quotes; empty for a list or map. */
struct hr_span hr_doc_text(const struct hr_doc *doc, hr_doc_node node);

/* Nothing was written: `when:` with no value, `~` or null, without quotes. */
bool hr_doc_is_null(const struct hr_doc *doc, hr_doc_node node);

/* Fills in a problem at a node, and is false, so that a reader can `return hr_doc_fault(...)`. hr_doc_where fills in
 * the place alone. */
__attribute__((format(printf, 4, 5))) bool hr_doc_fault(const struct hr_doc *doc, hr_doc_node node,
                                                        struct hr_problem *ret_problem, const char *format, ...);
void hr_doc_where(const struct hr_doc *doc, hr_doc_node node, struct hr_problem *ret_problem);

/* How much of a piece of the input a message shows, for "%.*s". */
int hr_doc_shown(struct hr_span text);

/* Typed reading. Each is false with *ret_problem filled in where the node is something else; `what` names the thing in
 * the message: "burst must be ...". */

/* The keys that a map may have. what: "a limit". */
struct hr_doc_keys {
    const char *what;
    uint32_t count;
    const char *const *names;
};

/* ret_values[i] becomes the value of names[i], or 0 where the map has no such key. An unknown key, or one that comes
 * twice, is a problem at that key. */
HR_MUST bool hr_doc_fields(const struct hr_doc *doc, hr_doc_node map, const struct hr_doc_keys *keys,
                           hr_doc_node *ret_values, struct hr_problem *ret_problem);

HR_MUST bool hr_doc_expect(const struct hr_doc *doc, hr_doc_node node, enum hr_doc_kind kind, const char *what,
                           struct hr_problem *ret_problem);

/* A scalar that is not null. */
HR_MUST bool hr_doc_scalar(const struct hr_doc *doc, hr_doc_node node, const char *what, struct hr_span *ret_text,
                           struct hr_problem *ret_problem);

/* A whole decimal number from 0 to max, without leading zeros. */
HR_MUST bool hr_doc_number(const struct hr_doc *doc, hr_doc_node node, const char *what, uint64_t max,
                           uint64_t *ret_number, struct hr_problem *ret_problem);

/* true or false. */
HR_MUST bool hr_doc_bool(const struct hr_doc *doc, hr_doc_node node, const char *what, bool *ret_value,
                         struct hr_problem *ret_problem);

/* One of words->names; *ret_index is its place. words->what names the thing: "mode". */
HR_MUST bool hr_doc_choice(const struct hr_doc *doc, hr_doc_node node, const struct hr_doc_keys *words,
                           uint32_t *ret_index, struct hr_problem *ret_problem);

#endif
