/* Paradraft's decode core: a whole pass of a decoder over packed weights and paged keys and values.

   Plain C, no global state: an engine owns its cache and its scratch memory, and its threads alone or with others;
   weights belong to the caller and stay in place as long as an engine reads them. Several engines may share weights
   and live in one process. One engine runs one call at a time; of engines that share threads, one waits for the other.

   Exactness. The bits of a token's outputs are a function of its own prefix (tokens and positions), the weights and
   the instruction set, and of nothing else: not of the number of tokens or rows of the pass, the chunks in which a
   prompt is fed, the slots that hold keys, or the number of threads. Every sum has one order, fixed by the logical
   positions of its terms; the files that add up say which. Where a pass sees both ways, all fed tokens of a token's row
   count as its prefix.

   Legend: R rows, T fed tokens (rows one after the other), S scored tokens, C hidden size, H query heads, N key heads,
   D head size, F feed-forward size, V vocabulary, L layers. Sizes are counts of elements unless a name says bytes. */

#ifndef PARADRAFT_NATIVE_H
#define PARADRAFT_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PARADRAFT_EXPORT __declspec(dllexport)
#else
#define PARADRAFT_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows whenever a struct or a packed layout changes: a packed file of another version must be made anew. */
#define PARADRAFT_NATIVE_VERSION 4

/* Element kinds of sources, packed weights and the cache. */
enum {
    PARADRAFT_F32 = 1,
    PARADRAFT_BF16 = 2, /* the upper 16 bits of an f32 */
    PARADRAFT_F16 = 3,  /* sources only */
    PARADRAFT_INT8 = 4, /* packed weights only: a scale per output and group of 32 inputs; activations are quantised per
                           token and group of 32, also beside int4 */
    PARADRAFT_INT4 = 5  /* likewise, with a scale and a least value per output and group of 32 inputs */
};

/* Instruction sets, from the most portable up. */
enum {
    PARADRAFT_PORTABLE = 0,
    PARADRAFT_AVX2 = 1,   /* AVX2, FMA */
    PARADRAFT_AVX512 = 2, /* AVX512 F BW DQ VL, VNNI, BF16 */
    PARADRAFT_BEST = -1   /* the highest that machine and library have */
};

/* What a call came to. */
enum {
    PARADRAFT_OK = 0,
    PARADRAFT_BAD_ARGUMENT = 1, /* a value that cannot be right; nothing was changed */
    PARADRAFT_NO_MEMORY = 2,
    PARADRAFT_NOT_SUPPORTED = 3 /* this machine or this library cannot do it */
};

/* Filled by a call that does not return PARADRAFT_OK; may be null. */
typedef struct {
    char message[256]; /* names the value and the reason, ends with a full stop; zero-terminated */
} paradraft_error;

/* ---- The library ---- */

PARADRAFT_EXPORT int32_t paradraft_version(void);

/* Whether this machine and this build can run an instruction set: 1 or 0. */
PARADRAFT_EXPORT int32_t paradraft_has(int32_t instruction_set);

/* ---- Packed weights ----
   A matrix [outputs, inputs] is packed once, in an order that a pass streams. Data must be aligned to 64 bytes; a
   memory-mapped file at such an offset will do. The layout is the same for every instruction set. */

typedef struct {
    const void *data;  /* packed; null where a layer has no such matrix */
    const float *bias; /* [outputs] or null */
    int64_t outputs;
    int64_t inputs;
    int32_t kind; /* PARADRAFT_F32, PARADRAFT_BF16, PARADRAFT_INT8 or PARADRAFT_INT4 */
    int32_t reserved;
} paradraft_matrix;

/* Bytes a packed matrix takes, a multiple of 64; 0 for a kind or size that cannot be packed. */
PARADRAFT_EXPORT int64_t paradraft_packed_bytes(int32_t kind, int64_t outputs, int64_t inputs);

/* Pack rows first_output .. first_output + source_rows of a matrix [outputs, inputs] from a row-major source of
   source_kind F32, BF16 or F16, so that joined layers and large files can be packed piece by piece. first_output must
   be a multiple of 16 and source_rows too, unless they end the matrix. destination is that of the whole matrix. */
PARADRAFT_EXPORT int32_t paradraft_pack(int32_t kind, int64_t outputs, int64_t inputs, int64_t first_output,
                                        int64_t source_rows, const void *source, int32_t source_kind,
                                        void *destination, paradraft_error *error);

/* Write row `row` of a packed matrix, as the pass sees it, to values [inputs]. */
PARADRAFT_EXPORT int32_t paradraft_unpack_row(const paradraft_matrix *matrix, int64_t row, float *values,
                                              paradraft_error *error);

/* ---- The model ---- */

typedef struct {
    paradraft_matrix query_key_value; /* [(H + 2 N) D, C]: queries, keys, values joined along the outputs; with a
                                         side_norm [(H + 2 N) D, 2 C] */
    paradraft_matrix output;          /* [C, H D] */
    paradraft_matrix gate;            /* [F, C] */
    paradraft_matrix up;              /* [F, C] */
    paradraft_matrix down;            /* [C, F] */
    const float *input_norm;          /* [C] */
    const float *inner_norm;          /* [C] */
    const float *query_norm;          /* [D] or null */
    const float *key_norm;            /* [D] or null; both or none */
    const float *side_norm;           /* [C]: attention reads a token's side and, behind it, its state, each through
                                         its norm; null: the state alone */
    int32_t window;                   /* a token sees this many positions back, itself included; 0: all */
    int32_t has_rope;                 /* 0 or 1 */
    int32_t goes_on_normed;           /* 1: what attention gives is added to the normed state, 0: to the state */
    int32_t reserved;
} paradraft_layer;

typedef struct {
    int64_t vocab_size, hidden_size, intermediate_size;
    int64_t num_layers, num_heads, num_key_heads, head_dim; /* head_dim: a multiple of 2 */
    float norm_eps;
    float rope_factor;                /* multiplies cosines and sines (yarn); 1 otherwise */
    const float *inverse_frequencies; /* [D/2] angle per position of the pairs (i, i + D/2) */
    const paradraft_layer *layers;    /* [L] */
    const float *final_norm;          /* [C] */
    paradraft_matrix head;            /* [V, C] */
    const void *embedding;            /* [V, C] row-major, or null: tied, read from the packed head */
    int32_t embedding_kind;           /* F32, BF16 or F16 */
    int32_t reserved;
    paradraft_matrix taps;            /* [C, any width]: makes a line of the taps of another model's token, which is a
                                         context entry's or enters the first layer; no data: there are none */
    const float *taps_norm;           /* [C] of that line, or null */
} paradraft_model;

typedef struct paradraft_engine paradraft_engine;

typedef struct {
    int64_t num_slots;       /* tokens whose keys and values the cache holds */
    int32_t cache_kind;      /* PARADRAFT_BF16 or PARADRAFT_F32 */
    int32_t num_threads;     /* the caller's included */
    int32_t instruction_set; /* PARADRAFT_BEST or one that paradraft_has */
    int32_t reserved;
    const paradraft_engine *shares; /* whose threads are used, and then num_threads is not read; null: new ones. The
                                       threads live as long as any engine that uses them */
} paradraft_options;

/* Make an engine. The structs are copied; what they point to (weights, norms, frequencies) is not, except
   inverse_frequencies and the array of layers. */
PARADRAFT_EXPORT int32_t paradraft_engine_create(const paradraft_model *model, const paradraft_options *options,
                                                 paradraft_engine **engine, paradraft_error *error);
PARADRAFT_EXPORT void paradraft_engine_destroy(paradraft_engine *engine);

/* The instruction set an engine runs. */
PARADRAFT_EXPORT int32_t paradraft_engine_instruction_set(const paradraft_engine *engine);

/* Bytes of the cache. */
PARADRAFT_EXPORT int64_t paradraft_engine_cache_bytes(const paradraft_engine *engine);

/* ---- A pass ---- */

typedef struct {
    int64_t num_rows, num_tokens, num_scored;
    const int32_t *row_starts;     /* [R+1] into the fed tokens; empty rows are fine */
    const int32_t *tokens;         /* [T]; not read if states are given */
    const int32_t *positions;      /* [T] for the rotation */
    const int32_t *slots;          /* [T] where keys and values are written; no slot twice */
    const int32_t *parents;        /* [T] the token before: its index within the row's fed tokens, smaller than the
                                      token's own; -1: the row's context. Not read if sees_both_ways */
    const int32_t *context_starts; /* [R+1] into context_slots */
    const int32_t *context_slots;  /* slots of the tokens of each row before the pass, in logical order. Runs of 16
                                      slots that start at multiples of 16, at logical indices that are multiples of
                                      16, are read in place; others are gathered, with the same bits */
    const int32_t *scored;         /* [S] indices into the fed tokens, any order */
    int64_t num_hidden_layers;     /* taps: -1 is the embedding, i the output of layer i */
    const int32_t *hidden_layers;
    int64_t num_entropy_layers;
    const int32_t *entropy_layers;
    const float *states;           /* [T, C] what enters the first layer; null: the embeddings of tokens */
    const float *sides;            /* [T, C] what layers with a side_norm read beside the states; else not read */
    int64_t num_tapped;
    const int32_t *tapped;         /* [num_tapped] ascending indices into the fed tokens: into the first layer enters
                                      the line of their taps; their states or tokens are not read */
    const float *taps;             /* [num_tapped, inputs of the model's taps] */
    const float *temperatures;     /* [S] above 0, of log_totals; not read without them */
    int64_t num_candidates;        /* at most V; not read without candidates */
    int32_t sees_both_ways;        /* 1: a token sees its row's context and all fed tokens of its row, earlier ones
                                      first; no layer may have a window. 0: context, ancestors, itself */
    int32_t reserved;
} paradraft_pass;

/* What is null is not filled in, except logits if tokens are scored. */
typedef struct {
    float *logits;           /* [S, V] */
    float *hidden;           /* [num_hidden_layers, T, C] */
    float *entropy;          /* [num_entropy_layers, T, H] nats of each head's attention weights */
    float *normed;           /* [S, C] what the head reads */
    int32_t *candidates;     /* [S, num_candidates] ids of the largest logits, by (-logit, id) */
    float *candidate_logits; /* [S, num_candidates]; with candidates or not at all */
    float *log_totals;       /* [S] log of the sum over the vocabulary of exp(logit / temperature) */
} paradraft_results;

/* Run a pass: write keys and values of the fed tokens, fill results. A pass that is asked for nothing behind the last
   layer's keys ends there. Arguments are checked before anything is written. */
PARADRAFT_EXPORT int32_t paradraft_engine_run(paradraft_engine *engine, const paradraft_pass *pass,
                                              const paradraft_results *results, paradraft_error *error);

/* Entries of contexts that are no tokens of this model: each is the taps of a token of another one. */
typedef struct {
    int64_t num_entries;
    const float *taps;        /* [n, inputs of the model's taps] */
    const int32_t *positions; /* [n] for the rotation */
    const int32_t *slots;     /* [n] where keys and values are written; no slot twice */
} paradraft_entries;

/* Write the keys and values of entries in every layer. An entry's line is norm(taps matrix times its taps); every
   layer makes its key and value of that line, without its input norm. The bits of an entry are a function of its own
   taps and position. No layer may have a side_norm. Arguments are checked before anything is written. */
PARADRAFT_EXPORT int32_t paradraft_engine_append(paradraft_engine *engine, const paradraft_entries *entries,
                                                 paradraft_error *error);

/* Copy cache slots in every layer; all sources are read before any destination is written. */
PARADRAFT_EXPORT int32_t paradraft_engine_move(paradraft_engine *engine, const int32_t *sources,
                                               const int32_t *destinations, int64_t count, paradraft_error *error);

/* ---- One layer by itself, for drafters' heads and for tests ---- */

/* outputs [M, outputs] = inputs [M, inputs] times the matrix plus its bias, on the calling thread. */
PARADRAFT_EXPORT int32_t paradraft_multiply(const paradraft_matrix *matrix, int64_t num_tokens, const float *inputs,
                                            float *outputs, int32_t instruction_set, paradraft_error *error);

#ifdef __cplusplus
}
#endif

#endif
