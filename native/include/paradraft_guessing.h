/* Drafting without a network: one tree per row out of a row's own text, finished texts, and counted continuations. What
   is proposed is what src/paradraft/drafters/merged.py proposes over suffix.py, table/recent.py and table/drafter.py,
   which say why. The rules of paradraft_native.h hold here.

   A guesser owns all that it keeps: texts, indexes, counts and the weights of its blend. */

#ifndef PARADRAFT_GUESSING_H
#define PARADRAFT_GUESSING_H

#include "paradraft_native.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of sources. */
enum {
    PARADRAFT_SUFFIX = 0, /* has two bits in `sources` of a draft: the row's own text, finished texts of its tenant */
    PARADRAFT_RECENT = 1,
    PARADRAFT_TABLE = 2
};

enum {
    PARADRAFT_MOST_SHARES = 16,  /* entries of one answer */
    PARADRAFT_SOURCE_WEIGHTS = 6, /* of each source, in the order of drafters/priors.py */
    PARADRAFT_DEPTHS = 4
};

/* The contexts of one length of a table (drafters/table/layout.py), C of them with E continuations. */
typedef struct {
    int64_t length; /* tokens of a context, 1 .. 16 */
    int64_t num_buckets, num_contexts, num_entries;
    double discounts[3];
    const uint32_t *heads;  /* [num_buckets + 1] */
    const uint32_t *marks;  /* [C] */
    const uint16_t *totals; /* [C] */
    const uint32_t *begins; /* [C+1] */
    const void *tokens;     /* [E] uint16_t, or uint32_t if is_wide */
    const uint16_t *counts; /* [E] */
    int32_t is_wide;
    int32_t reserved;
} paradraft_table_order;

typedef struct {
    int64_t vocab_size;
    int64_t num_sources;    /* 1 .. 3 */
    const int32_t *sources; /* [num_sources] kinds, each once, in the order in which they are blended */
    const double *weights;  /* [2, 6 num_sources + 5] the blend's at first, for greedy and for other rows: of each source,
                               of each class of depth, of the noise */
    int64_t width;          /* children per node, at least 1 */
    int64_t shared_tokens;  /* of finished texts over all tenants; 0: none */
    int64_t row_tokens;     /* of a row's own text that are indexed */
    int64_t counted_tokens; /* of a row's text that are counted when it first appears */
    int64_t learned_contexts; /* that finished answers add to the table over all tenants; 0: none */
    int64_t num_orders;
    const paradraft_table_order *orders; /* [num_orders] by length */
    int64_t num_frequent;
    const int32_t *frequent;            /* [num_frequent] frequent tokens of the table, and the logs of their shares */
    const double *frequent_log_shares;
} paradraft_guesser_options;

typedef struct paradraft_guesser paradraft_guesser;

/* Make a guesser. The structs are copied; the arrays of orders are not, and must stay in place. */
PARADRAFT_EXPORT int32_t paradraft_guesser_create(const paradraft_guesser_options *options,
                                                  paradraft_guesser **guesser, paradraft_error *error);
PARADRAFT_EXPORT void paradraft_guesser_destroy(paradraft_guesser *guesser);

/* Write the blend's weights, [6 num_sources + 5], of greedy rows (is_warm 0) or of others (1). */
PARADRAFT_EXPORT int32_t paradraft_guesser_weights(const paradraft_guesser *guesser, int32_t is_warm, double *weights,
                                                   paradraft_error *error);

/* A request's row. */
typedef struct {
    const char *tenant; /* [tenant_bytes]; nothing of one tenant is told to another */
    int64_t tenant_bytes;
    int64_t answer_from; /* where the part of its text begins that is new to the tenant's texts */
    uint64_t seed, choice;
    int32_t is_warm;   /* 0: the row is greedy */
    int32_t has_noise; /* 1: drafts follow the noise of seed and choice, as under the coupled rule */
} paradraft_guesser_row;

/* Begin a row; *row is its number until it ends. */
PARADRAFT_EXPORT int32_t paradraft_guesser_begin(paradraft_guesser *guesser, const paradraft_guesser_row *given,
                                                 int64_t *row, paradraft_error *error);

/* End a row: what it produced joins its tenant's texts and counts. text is all that is known of it, [length]. */
PARADRAFT_EXPORT int32_t paradraft_guesser_end(paradraft_guesser *guesser, int64_t row, const int32_t *text,
                                               int64_t length, paradraft_error *error);

/* A row in a step. */
typedef struct {
    int64_t row;
    const int32_t *history; /* [length] every token known */
    int64_t length;         /* at least 1 */
    int64_t known;          /* tokens up to the last pending one, at most length */
    int64_t num_nodes;      /* 0: the row only reads on */
    int64_t depth;
} paradraft_guesser_step;

/* Nodes of all rows, one row behind the other; parents count within the row, -1: the row's last token. */
typedef struct {
    int64_t capacity;   /* at least the sum of num_nodes */
    int32_t *starts;    /* [R+1] */
    int32_t *tokens;    /* [capacity], and so on */
    int32_t *parents;
    int32_t *depths;
    uint32_t *sources;  /* bits of the sources that named the token */
    double *confidence; /* that the node stands, its ancestors included */
    double *expected;   /* [R] tokens that a pass over the row's draft is expected to commit */
} paradraft_drafts;

typedef struct {
    double node;  /* what a node adds to a pass, as a share of a plain one */
    double draft; /* what the first one adds besides */
} paradraft_price;

/* Read on in the rows' texts and look up what comes next. With drafts, grow one for each row; without, they can be
   asked for below. Answers hold until the next call of this, of observe, or the end of the row. */
PARADRAFT_EXPORT int32_t paradraft_guesser_propose(paradraft_guesser *guesser, const paradraft_guesser_step *steps,
                                                   int64_t num_rows, const paradraft_price *price,
                                                   const paradraft_drafts *drafts, paradraft_error *error);

/* Grow the draft of one row that was looked up. num_nodes and depth are those of the draft. */
PARADRAFT_EXPORT int32_t paradraft_guesser_grow(paradraft_guesser *guesser, int64_t row, int64_t num_nodes,
                                                int64_t depth, int64_t width, const paradraft_price *price,
                                                const paradraft_drafts *drafts, paradraft_error *error);

/* Learn what the target chose: tokens of row r from starts[r] to starts[r+1]. num_nodes and depth are not read. */
PARADRAFT_EXPORT int32_t paradraft_guesser_observe(paradraft_guesser *guesser, const paradraft_guesser_step *steps,
                                                   int64_t num_rows, const int32_t *starts, const int32_t *tokens,
                                                   paradraft_error *error);

/* Paths of a row that was looked up, by number; 0 is the empty one. */

/* Whether the row has guesses at all: *has_any. */
PARADRAFT_EXPORT int32_t paradraft_guesser_has(const paradraft_guesser *guesser, int64_t row, int32_t *has_any,
                                               paradraft_error *error);

/* The blended chances after a path: *count at most PARADRAFT_MOST_SHARES tokens. */
PARADRAFT_EXPORT int32_t paradraft_guesser_shares(paradraft_guesser *guesser, int64_t row, int64_t path,
                                                  int32_t *tokens, double *shares, int64_t *count,
                                                  paradraft_error *error);

/* The path one token further: *below. */
PARADRAFT_EXPORT int32_t paradraft_guesser_descend(paradraft_guesser *guesser, int64_t row, int64_t path, int32_t token,
                                                   int64_t *below, paradraft_error *error);

/* The bits of the sources that named a token after a path: *bits. */
PARADRAFT_EXPORT int32_t paradraft_guesser_source_of(const paradraft_guesser *guesser, int64_t row, int64_t path,
                                                     int32_t token, uint32_t *bits, paradraft_error *error);

#ifdef __cplusplus
}
#endif

#endif
