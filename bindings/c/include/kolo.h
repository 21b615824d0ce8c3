/* kolo: collective communication on host memory. C99 and C++11.
 *
 * Generated from bindings/c/src: do not edit.
 *
 * Every function returns a koloResult_t unless it says otherwise, and never crashes on a wrong
 * handle or number: it returns an error, and koloGetLastError has the sentence. The first failure
 * of each kind is also one line on stderr (KOLO_DEBUG=none: none); with KOLO_ERRORS=abort the
 * process prints it and aborts. Buffers must be as large as the call needs; nobody can check
 * that. */

#ifndef KOLO_H
#define KOLO_H

#include <stddef.h>

/* Version of this header as one number; koloGetVersion gives that of the library. */
#define KOLO_VERSION_CODE (KOLO_MAJOR * 10000 + KOLO_MINOR * 100 + KOLO_PATCH)

/* The value of a koloConfig_t field that was not chosen. */
#define KOLO_CONFIG_UNDEF_INT (-2147483647 - 1)

/* koloConfig_t config = KOLO_CONFIG_INITIALIZER; */
#define KOLO_CONFIG_INITIALIZER \
    { \
        sizeof(koloConfig_t), KOLO_CONFIG_MAGIC, KOLO_VERSION_CODE, KOLO_CONFIG_UNDEF_INT, \
        KOLO_CONFIG_UNDEF_INT, KOLO_CONFIG_UNDEF_INT, NULL, NULL, KOLO_CONFIG_UNDEF_INT \
    }

/* koloRoute_t route = KOLO_ROUTE_INITIALIZER; */
#define KOLO_ROUTE_INITIALIZER { sizeof(koloRoute_t), "", "", 0, 0, -1.0, "" }

/* Compilers warn where the result of a call is dropped after whose failure data would be wrong.
 * Programs that define KOLO_MAY_DROP_RESULTS before they include kolo.h, and compilers that know
 * no such warning, get none. */
#if defined(KOLO_MAY_DROP_RESULTS)
#define KOLO_MUST_CHECK
#elif defined(__cplusplus) && __cplusplus >= 201703L
#define KOLO_MUST_CHECK [[nodiscard]]
#elif defined(__GNUC__)
#define KOLO_MUST_CHECK __attribute__((warn_unused_result))
#else
#define KOLO_MUST_CHECK
#endif

/* For one call whose result is of no interest: KOLO_IGNORE(koloStreamDestroy(stream)); */
#define KOLO_IGNORE(call) ((void)((call) == koloSuccess))

/* Second names of data types. */
#define koloChar koloInt8
#define koloInt koloInt32
#define koloHalf koloFloat16
#define koloFloat koloFloat32
#define koloDouble koloFloat64
#define koloFloatComplex koloComplex64
#define koloDoubleComplex koloComplex128
#define kolo2Int koloIntInt
#define kolo2Float koloFloatFloat
#define kolo2Double koloDoubleDouble


/**
 * Version of this header, first part: a new one may break programs.
 */
#define KOLO_MAJOR 0

/**
 * Second part: new functions.
 */
#define KOLO_MINOR 1

/**
 * Third part: corrections.
 */
#define KOLO_PATCH 0

/**
 * Bytes of a koloUniqueId.
 */
#define KOLO_UNIQUE_ID_BYTES 128

/**
 * The `color` of a rank that wants no new communicator from koloCommSplit.
 */
#define KOLO_SPLIT_NOCOLOR -1

/**
 * The entry of `devlist` (koloCommInitAll) that means host memory.
 */
#define KOLO_DEVICE_HOST -1

/**
 * The mark in a koloConfig_t that KOLO_CONFIG_INITIALIZER filled.
 */
#define KOLO_CONFIG_MAGIC 1802464367

/**
 * The version of koloMpiTable that this header describes.
 */
#define KOLO_MPI_TABLE_VERSION 1

/**
 * As peer of a message, and in lists of neighbours: nobody. Nothing is sent or received.
 */
#define KOLO_NO_RANK -1

/**
 * Bytes of an algorithm's or a protocol's name in koloRoute_t, with its zero.
 */
#define KOLO_ROUTE_WORD_BYTES 32

/**
 * Bytes of the sentence in koloRoute_t, with its zero.
 */
#define KOLO_ROUTE_TEXT_BYTES 192

/**
 * Result of a call. Every failure also leaves a sentence for koloGetLastError.
 */
typedef enum {
    /**
     * The call did what it says.
     */
    koloSuccess = 0,
    /**
     * A CUDA call failed.
     */
    koloUnhandledCudaError = 1,
    /**
     * The operating system refused something.
     */
    koloSystemError = 2,
    /**
     * A fault in kolo itself: please report it.
     */
    koloInternalError = 3,
    /**
     * An argument has a value that no call accepts. Nothing was touched.
     */
    koloInvalidArgument = 4,
    /**
     * The call is not allowed now or not in this combination. Nothing was touched.
     */
    koloInvalidUsage = 5,
    /**
     * Another rank failed, aborted or disappeared.
     */
    koloRemoteError = 6,
    /**
     * An asynchronous operation has not ended yet (koloStreamQuery).
     */
    koloInProgress = 7,
    /**
     * A limit set by KOLO_TIMEOUT ran out.
     */
    koloTimeout = 8,
} koloResult_t;

/**
 * Type of an element.
 */
typedef enum {
    /**
     * Signed, 1 byte.
     */
    koloInt8 = 0,
    /**
     * Unsigned, 1 byte.
     */
    koloUint8 = 1,
    /**
     * Signed, 4 bytes.
     */
    koloInt32 = 2,
    /**
     * Unsigned, 4 bytes.
     */
    koloUint32 = 3,
    /**
     * Signed, 8 bytes.
     */
    koloInt64 = 4,
    /**
     * Unsigned, 8 bytes.
     */
    koloUint64 = 5,
    /**
     * IEEE 754 half precision, 2 bytes.
     */
    koloFloat16 = 6,
    /**
     * IEEE 754 single precision, 4 bytes.
     */
    koloFloat32 = 7,
    /**
     * IEEE 754 double precision, 8 bytes.
     */
    koloFloat64 = 8,
    /**
     * The upper half of a koloFloat32, 2 bytes.
     */
    koloBfloat16 = 9,
    /**
     * 1 byte: 4 bits of exponent, 3 of mantissa, no infinity.
     */
    koloFloat8e4m3 = 10,
    /**
     * 1 byte: 5 bits of exponent, 2 of mantissa.
     */
    koloFloat8e5m2 = 11,
    /**
     * Two koloFloat32: real and imaginary part (float _Complex), 8 bytes.
     */
    koloComplex64 = 16,
    /**
     * Two koloFloat64: real and imaginary part (double _Complex), 16 bytes.
     */
    koloComplex128 = 17,
    /**
     * Truth in 1 byte: 0 is false, everything else true; results are 0 and 1.
     */
    koloLogical8 = 20,
    /**
     * Truth in 2 bytes.
     */
    koloLogical16 = 21,
    /**
     * Truth in 4 bytes.
     */
    koloLogical32 = 22,
    /**
     * Truth in 8 bytes.
     */
    koloLogical64 = 23,
    /**
     * 1 byte without arithmetic; koloMax and koloMin take it as unsigned.
     */
    koloByte = 26,
    /**
     * A character of 1 byte, ordered as unsigned.
     */
    koloCharacter = 27,
    /**
     * struct { float value; int index; }, 8 bytes.
     */
    koloFloatInt = 32,
    /**
     * struct { double value; int index; }, 16 bytes with 4 of padding.
     */
    koloDoubleInt = 33,
    /**
     * struct { int value; int index; }, 8 bytes.
     */
    koloIntInt = 34,
    /**
     * struct { int64_t value; int index; }, 16 bytes with 4 of padding.
     */
    koloLongInt = 35,
    /**
     * Two koloFloat32: a value and an index, 8 bytes.
     */
    koloFloatFloat = 36,
    /**
     * Two koloFloat64: a value and an index, 16 bytes.
     */
    koloDoubleDouble = 37,
} koloDataType_t;

/**
 * Reduction. Which types each one combines: integers all but koloMinloc and koloMaxloc; floats
 * koloSum to koloAvg; complex numbers koloSum, koloProd and koloAvg; logicals koloLand, koloLor
 * and koloLxor; bytes and characters koloMax, koloMin, koloBand, koloBor and koloBxor; pairs
 * koloMinloc and koloMaxloc. koloRedOpCreatePreMulSum and koloRedOpCreateUser make further ones,
 * with larger numbers.
 */
typedef enum {
    /**
     * Sum. Integers wrap around.
     */
    koloSum = 0,
    /**
     * Product. Integers wrap around.
     */
    koloProd = 1,
    /**
     * Largest element.
     */
    koloMax = 2,
    /**
     * Smallest element.
     */
    koloMin = 3,
    /**
     * The sum divided by the number of ranks.
     */
    koloAvg = 4,
    /**
     * The correctly rounded exact sum of real and complex numbers in single and double precision,
     * in koloAllReduce and koloReduce: the same bits for every number of ranks, order and
     * algorithm.
     */
    koloSumExact = 10,
    /**
     * Bitwise and.
     */
    koloBand = 16,
    /**
     * Bitwise or.
     */
    koloBor = 17,
    /**
     * Bitwise exclusive or.
     */
    koloBxor = 18,
    /**
     * Are all true? The result is 0 or 1.
     */
    koloLand = 20,
    /**
     * Is one true?
     */
    koloLor = 21,
    /**
     * Is an odd number of them true?
     */
    koloLxor = 22,
    /**
     * The pair with the smallest value; of equal values the one with the smallest index. NaN wins.
     */
    koloMinloc = 24,
    /**
     * The pair with the largest value; of equal values the one with the smallest index. NaN wins.
     */
    koloMaxloc = 25,
    /**
     * The largest number an operation can have; no operation itself.
     */
    koloMaxRedOp = 2147483647,
} koloRedOp_t;

/**
 * When the scalar of koloRedOpCreatePreMulSum is read.
 */
typedef enum {
    /**
     * At every call that uses the operation: the scalar must live as long as the operation.
     */
    koloScalarDevice = 0,
    /**
     * Before koloRedOpCreatePreMulSum returns.
     */
    koloScalarHostImmediate = 1,
} koloScalarResidence_t;

/**
 * The object behind a koloComm_t. A handle is a number, not an address.
 */
typedef struct koloComm koloComm;

/**
 * The object behind a koloGraph_t.
 */
typedef struct koloGraph koloGraph;

/**
 * The object behind a koloRequest_t.
 */
typedef struct koloRequest koloRequest;

/**
 * The object behind a koloStream_t.
 */
typedef struct koloStream koloStream;

/**
 * One rank's membership in a group of ranks. A wrong handle (NULL, garbage, destroyed) is
 * koloInvalidArgument in every call. One thread at a time may use a communicator; different
 * communicators are independent.
 */
typedef koloComm *koloComm_t;

/**
 * Writes `sentence`, in the words of another language, to `text`, where `bytes` bytes are.
 */
typedef void (*koloTranslate_t)(const char *sentence, char *text, size_t bytes);

/**
 * Names a communicator to be: one rank makes it with koloGetUniqueId and hands it to the others
 * by any means. Holds an address and a secret.
 */
typedef struct {
    /**
     * Opaque bytes.
     */
    char internal[KOLO_UNIQUE_ID_BYTES];
} koloUniqueId;

/**
 * Optional properties of a communicator. Start with KOLO_CONFIG_INITIALIZER and change what you
 * need; only the first `size` bytes are read, so a program built with an older header runs.
 */
typedef struct {
    /**
     * Bytes of this structure as the caller knows it.
     */
    size_t size;
    /**
     * KOLO_CONFIG_MAGIC.
     */
    unsigned int magic;
    /**
     * KOLO_VERSION_CODE of the caller's header.
     */
    unsigned int version;
    /**
     * 1 (default): koloCommInitRankConfig returns when the communicator is ready. 0: it returns
     * koloInProgress at once (see there). Calls that move data block or not by their stream alone.
     */
    int blocking;
    /**
     * Least number of channels, at least 1.
     */
    int minChannels;
    /**
     * Largest number of channels, at least 1.
     */
    int maxChannels;
    /**
     * Name of the communicator in messages (UTF-8), or NULL.
     */
    const char *name;
    /**
     * NULL, or an array of "KEY=VALUE" strings that ends with NULL: settings of this
     * communicator, stronger than files and environment. Keys as `kolo info --config` shows them.
     */
    const char *const *settings;
    /**
     * KOLO_DEVICE_HOST (default), or the number of a CUDA device among those that the process
     * sees: buffers are then in memory of the device (docs/gpu.md). All ranks are on devices, or
     * none. A device that cannot be used is refused on all ranks (koloInvalidUsage).
     */
    int device;
} koloConfig_t;

/**
 * How the ranks of koloCommInitTable meet: functions of a launcher (an MPI, for example). The
 * int results are 0 for success. bcast and allgather are called only by the thread that is inside
 * koloCommInitTable, idle only by threads that are inside a kolo call of the program.
 */
typedef struct {
    /**
     * Bytes of this structure as the caller knows it.
     */
    size_t size;
    /**
     * KOLO_MPI_TABLE_VERSION.
     */
    unsigned int version;
    /**
     * First argument of the functions; belongs to kolo once the table is accepted.
     */
    void *ctx;
    /**
     * This rank, 0 <= rank < nranks.
     */
    int rank;
    /**
     * Number of ranks.
     */
    int nranks;
    /**
     * `bytes` bytes at `buffer` go from `root` to all ranks.
     */
    int (*bcast)(void *ctx, void *buffer, size_t bytes, int root);
    /**
     * `bytes` bytes of every rank at `send` go to `recv` of all ranks, in rank order.
     */
    int (*allgather)(void *ctx, const void *send, size_t bytes, void *recv);
    /**
     * Called now and then while a thread waits inside kolo, so that the launcher's own messages
     * move.
     */
    int (*idle)(void *ctx);
    /**
     * Called once, when kolo needs `ctx` no more (also when the call fails, unless the table
     * itself was refused).
     */
    int (*free)(void *ctx);
    /**
     * NULL, or why no table could be made: the call fails with this sentence.
     */
    const char *problem;
    /**
     * The koloResult_t that goes with `problem`.
     */
    int problemCode;
    /**
     * NULL, or functions of libkolo_mpi that carry data between nodes.
     */
    const void *net;
    /**
     * How many processes the launcher started, not only the ranks of this table; 0: not known.
     * A world of one process where Slurm started several is refused.
     */
    size_t world;
    /**
     * The negative number that means "no rank" to the launcher, as MPI_PROC_NULL does to MPI;
     * 0: none. KOLO_NO_RANK always does.
     */
    int noRank;
    /**
     * NULL, or the name, valid until `free`, that the program has given these ranks, as
     * MPI_Comm_set_name does: errors and the log have it.
     */
    const char *name;
} koloMpiTable;

/**
 * An in-order queue of asynchronous operations on host memory. NULL in a call means: block until
 * the result is in place (inside a group: until the outermost koloGroupEnd). On a communicator of
 * a CUDA device it is a cudaStream_t or CUstream, cast to this type, and NULL is CUDA's default
 * stream: calls return when they are on the stream, whose own library waits for it.
 */
typedef koloStream *koloStream_t;

/**
 * The neighbours of this rank in koloNeighbor calls, on the communicator that it was made on.
 */
typedef koloGraph *koloGraph_t;

/**
 * A reduction of the program's own: `inout[i] = in[i] op inout[i]` for `count` elements. `in`
 * comes first in the order of ranks. The buffers do not overlap. It is called only by threads that
 * are inside a kolo call, perhaps of another communicator; it must not call kolo.
 */
typedef void (*koloUserFunction_t)(const void *in_,
                                   void *inout,
                                   size_t count,
                                   koloDataType_t datatype,
                                   void *context);

/**
 * How a call would go (koloCommGetRoute).
 */
typedef struct {
    /**
     * Bytes of this structure as the caller knows it; afterwards how many were filled.
     */
    size_t size;
    /**
     * Name of the algorithm; empty where several launches do the call.
     */
    char algorithm[KOLO_ROUTE_WORD_BYTES];
    /**
     * Name of the protocol; empty as the algorithm's.
     */
    char protocol[KOLO_ROUTE_WORD_BYTES];
    /**
     * Channels that the algorithm uses; 0 where its name is empty.
     */
    int channels;
    /**
     * 1 where ranks read each other's buffers instead, if all of these can be read.
     */
    int mayBeDirect;
    /**
     * The time that is expected; negative where nobody knows.
     */
    double microseconds;
    /**
     * All of it in words, the form at the end.
     */
    char words[KOLO_ROUTE_TEXT_BYTES];
} koloRoute_t;

/**
 * One asynchronous call (koloI...), until koloWait, koloTest or koloWaitAll has ended it. NULL:
 * none. It moves on whatever the program does meanwhile, as all that is on a stream: callers
 * that wait inside kolo drive it, and while none does a thread of kolo, which sleeps until
 * something can move. KOLO_PROGRESS=inline does without the thread: calls in flight then move only
 * while the program is inside kolo. So do, in any case, calls with an operation of
 * koloRedOpCreateUser, and all on a communicator that uses KOLO_NET=mpi below MPI_THREAD_MULTIPLE.
 */
typedef koloRequest *koloRequest_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The short name of a result, in English; never NULL, valid for ever. Any thread.
 */
const char *koloGetErrorString(koloResult_t result);

/**
 * For bindings of other languages, and for wrappers: a call of theirs has failed before it reached
 * kolo. `sentence` is kept for koloGetLastError and told as those of kolo's own calls are: a line
 * on stderr, and with KOLO_ERRORS=abort the end of the process. `comm` may be NULL.
 * The open group, if any, runs nothing. Gives `result` back.
 * Errors of the call itself: koloInvalidArgument (NULL, no such result). Any thread.
 */
koloResult_t koloReportError(koloComm_t comm, koloResult_t result, const char *sentence);

/**
 * For bindings of other languages, before koloReportError: writes the sentence of a failure that
 * they have found to `text`, where `bytes` bytes are, as kolo writes those of its own calls: with
 * the rank, `call`, the communicator's name, `what` happened, `remedy`, and the place in the
 * program from which this thread came, where KOLO_ERRORS asks for it. A longer one is cut. `comm`
 * may be NULL, or no longer alive.
 * Errors: koloInvalidArgument (NULL, no bytes). Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloDescribeError(koloComm_t comm,
                               const char *call,
                               const char *what,
                               const char *remedy,
                               char *text,
                               size_t bytes);

/**
 * For bindings of other languages that end the process when a call fails, with a sentence of their
 * own: `is_said` is asked by each failure, on the thread of the call that failed. While it answers
 * other than 0, failures are no lines on stderr; they are kept for koloGetLastError as ever. It
 * may call nothing of kolo, and its library must not be unloaded; it stays until the process ends.
 * Errors: koloInvalidArgument (NULL), koloInvalidUsage (8 others are there). Any thread.
 */
koloResult_t koloQuietWhile(int (*is_said)(void));

/**
 * For bindings of other languages: from now on the log and the report of this process name calls,
 * operations and types as the program does. `translate` is given sentences that have the names of
 * kolo.h. It is called by any thread, may call nothing of kolo, and its library must not be
 * unloaded; the first one stays until the process ends. koloGetLastError does not translate.
 * Errors: koloInvalidArgument (NULL). Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloTranslateLog(koloTranslate_t translate);

/**
 * The sentence of the last call that failed on `comm` (on any thread), with rank, peer, call and
 * remedy; or of a later call of this thread that failed and concerns no communicator in particular
 * (koloStream, koloWait, koloGroupEnd, a NULL request); without either, what has stopped `comm`.
 * With NULL, or a handle that is not alive: of the last call of
 * this thread that failed. "no error" when there is none. Never NULL. The text stays valid until
 * this thread calls koloGetLastError with the same argument again. Any thread.
 */
const char *koloGetLastError(koloComm_t comm);

/**
 * Writes the version of the library to `*version`: major * 10000 + minor * 100 + patch.
 * Errors: koloInvalidArgument (NULL). Any thread, any time.
 */
koloResult_t koloGetVersion(int *version);

/**
 * Makes a new id for one communicator and starts the thread at which its ranks check in; call it
 * on one rank and give the bytes to all. The calling process must live until all ranks have
 * returned from koloCommInitRank.
 * Errors: koloInvalidArgument (NULL, bad setting), koloSystemError (no usable network interface).
 * Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloGetUniqueId(koloUniqueId *uniqueId);

/**
 * Makes rank `rank` of a communicator of `nranks` ranks; returns when all ranks have called.
 * Inside a group it returns at once, `*newcomm` is NULL until the outermost koloGroupEnd has
 * filled it, and must stay valid till then: so one thread makes several ranks.
 * Errors: koloInvalidArgument (NULL, rank not in 0..nranks, an id that kolo did not make),
 * koloInvalidUsage (a rank checked in twice, different settings), koloRemoteError, koloTimeout,
 * koloSystemError. Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitRank(koloComm_t *newcomm, int nranks, koloUniqueId commId, int rank);

/**
 * koloCommInitRank with properties; `config` may be NULL and is read before the call returns.
 * With blocking = 0 in it, the call returns koloInProgress at once, with a handle whose
 * communicator a thread of kolo's makes meanwhile: koloCommGetAsyncError writes koloInProgress
 * until it is ready, then koloSuccess, or why it failed. Till then koloCommGetAsyncError,
 * koloGetLastError, koloCommCount and koloCommUserRank answer, koloCommAbort and koloCommDestroy
 * end the start (and with it that of
 * the other ranks), and any other call is koloInvalidUsage. So one thread can begin many
 * communicators, several ranks of one too. Inside a group, koloGroupEnd begins them and returns
 * koloInProgress. The other ways to make a communicator (MPI, a launcher, koloCommSplit) block.
 * Further errors: koloInvalidArgument (koloConfig_t not from KOLO_CONFIG_INITIALIZER, a field out
 * of range, an unknown setting); with blocking = 0 koloSystemError at once (no thread or
 * descriptor for the start). Where that is so, or blocking is neither 0 nor 1, this rank has not
 * begun, and the others wait as for a rank that never comes.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitRankConfig(koloComm_t *newcomm,
                                    int nranks,
                                    koloUniqueId commId,
                                    int rank,
                                    const koloConfig_t *config);

/**
 * Makes all `ndev` ranks of a communicator in this process and writes them to comms[0..ndev], in
 * rank order. `devlist` is NULL (host memory) or has one device for each rank: the number of a
 * CUDA device, or KOLO_DEVICE_HOST for every rank. Each rank is then used by one thread at a time,
 * or all of them by one thread inside groups. Not deferred by a group. Errors: koloInvalidArgument
 * (NULL, ndev < 1, unknown device), koloSystemError. Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitAll(koloComm_t *comms, int ndev, const int *devlist);

/**
 * Makes new communicators of the ranks of `comm`: those that give the same `color` (>= 0) belong
 * together, ordered by `key` and then by their old rank. KOLO_SPLIT_NOCOLOR: this rank takes part
 * but gets NULL. All ranks of `comm` call it; inside a group it is deferred, as koloCommInitRank
 * is. `config` may be NULL. `comm` stays usable. It blocks, also where `comm` was begun without.
 * Errors: as koloCommInitRankConfig, and koloInvalidArgument for a negative color, or blocking =
 * 0.
 */
KOLO_MUST_CHECK
koloResult_t koloCommSplit(koloComm_t comm,
                           int color,
                           int key,
                           koloComm_t *newcomm,
                           const koloConfig_t *config);

/**
 * Waits until everything that was started on `comm` has ended; afterwards only koloCommDestroy,
 * koloCommAbort and the queries are allowed. Optional: koloCommDestroy does it too.
 * Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
 * calls on it wait in a group of this thread that is still open: nothing was done),
 * koloRemoteError.
 */
KOLO_MUST_CHECK
koloResult_t koloCommFinalize(koloComm_t comm);

/**
 * Ends `comm` and frees what it holds; one that is still being made is given up at once, as by
 * koloCommAbort. The handle is invalid afterwards, also when another error
 * than koloInvalidUsage is returned; after koloInvalidUsage nothing was done.
 * Errors: koloInvalidArgument (handle), koloInvalidUsage (another thread is in a call on it, or
 * calls on it wait in a group of this thread that is still open: koloGroupEnd runs them),
 * koloRemoteError (a rank died or aborted, or ranks called different things and no call had said
 * so, or it could not be made and no call has said so), those of calls in flight (koloTimeout,
 * koloSystemError). With a device it may wait up to 1 s for ranks of
 * the node that are behind. Another thread whose last transfer was on it may keep its memory until
 * its next transfer, or its end. In a forked child it returns at once.
 */
koloResult_t koloCommDestroy(koloComm_t comm);

/**
 * Ends `comm` without waiting for anybody: calls in progress, here and on the other ranks, return
 * koloRemoteError. One that is still being made is given up in any phase, and waited for until
 * nothing of it is left, at most 5 s: a thread inside a call of the system or of a network plugin
 * ends when that call does. The handle is invalid afterwards. The one call
 * that another thread may make while a thread is inside a call on `comm`.
 * Errors: koloInvalidArgument (handle).
 */
koloResult_t koloCommAbort(koloComm_t comm);

/**
 * Writes the number of ranks to `*count`. Errors: koloInvalidArgument. Any thread.
 */
koloResult_t koloCommCount(koloComm_t comm, int *count);

/**
 * Writes this rank to `*rank`. Errors: koloInvalidArgument. Any thread.
 */
koloResult_t koloCommUserRank(koloComm_t comm, int *rank);

/**
 * Writes koloSuccess to `*asyncError`; koloInProgress while `comm` is being made (blocking = 0);
 * or the code of the error that has stopped it, or for which it could not be made, whose
 * sentence koloGetLastError(comm) has. Does not wait.
 * Errors of the call itself: koloInvalidArgument. Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloCommGetAsyncError(koloComm_t comm, koloResult_t *asyncError);

/**
 * Makes a communicator of all processes that were started together, without MPI and without a
 * unique id; every process calls it, as often as the others, one thread at a time. The first of
 * these that is there says who they are: KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID (host:port of
 * rank 0); a PMIx server (srun --mpi=pmix, mpirun of Open MPI); a PMI server (srun --mpi=pmi2,
 * mpirun of MPICH); the variables of a Slurm step. With none of them the process is alone, with
 * one rank. Not deferred by a group. In a program with MPI use koloCommInitMPI.
 * Errors: koloInvalidArgument (NULL, a bad variable), koloInvalidUsage (several ranks without a
 * way to meet), and those of koloCommInitRank.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitEnv(koloComm_t *newcomm);

/**
 * Makes a communicator of all tasks of this process's Slurm step from the variables of the step
 * alone, whatever srun --mpi says; every task calls it, as often as the others, one thread at a
 * time. Rank 0 listens on the first node of the step, at a port from the range that
 * KOLO_SLURM_PORT and KOLO_SLURM_PORT_COUNT give; KOLO_COMM_ID names another address. Not deferred
 * by a group.
 * Errors: koloInvalidArgument (NULL, a bad variable), koloInvalidUsage (no Slurm step),
 * koloSystemError (rank 0 was not found within KOLO_START_TIMEOUT), and those of koloCommInitRank.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitSlurm(koloComm_t *newcomm);

/**
 * Makes a communicator of ranks that already have a launcher's collective functions, as
 * koloCommInitMPI of libkolo_mpi does. The table is copied. Not deferred by a group: bcast and
 * allgather are called by this thread, before the call returns.
 * Errors: koloInvalidArgument (NULL, size, version, rank: the table was refused),
 * koloSystemError (a function of the table failed), and those of koloCommInitRank.
 */
KOLO_MUST_CHECK
koloResult_t koloCommInitTable(koloComm_t *newcomm, const koloMpiTable *table);

/**
 * Opens a group on this thread: the calls that follow only queue their work, until the matching
 * koloGroupEnd. Groups nest; the outermost counts. Sends and receives that wait for each other,
 * and calls on several ranks of one thread, must be in one group. No buffer that a call of the
 * group writes may overlap one of another call: they run side by side.
 * Errors: none. Any thread.
 */
koloResult_t koloGroupStart(void);

/**
 * Closes a group. The outermost one runs what was queued, all of it together: initialisations
 * first, then blocking calls until their results are in place; calls with a stream are started.
 * Where it has begun communicators with blocking = 0, it returns koloInProgress, and their handles
 * are in place: koloCommGetAsyncError of each tells when it is ready.
 * Buffers of the group's calls must stay valid until then.
 * Errors: koloInvalidUsage (no group is open), and those of the queued calls: then
 * koloGetLastError of the communicators concerned has the sentence too. Handles of communicators
 * with blocking = 0 that are not NULL have begun also when an error is returned: abort them.
 */
KOLO_MUST_CHECK
koloResult_t koloGroupEnd(void);

/**
 * Reduces `count` elements of all ranks with `op`; every rank gets the same bits. In place:
 * sendbuff == recvbuff.
 * Errors of this and all following calls: koloInvalidArgument (handle, NULL with count > 0, count
 * too large, unknown datatype or op, root or peer outside 0..nranks, overlapping buffers),
 * koloInvalidUsage (destroyed or failed communicator, two threads at once, ranks that disagree),
 * koloRemoteError (a rank died or aborted), koloTimeout. After the last two the communicator only
 * answers koloCommAbort, koloCommDestroy and queries. Counts are elements; count 0 is allowed;
 * buffers may begin anywhere, those of koloSumExact at a multiple of the type's size. All ranks
 * make the same calls in the same order.
 * With stream NULL the call blocks until the result is in place (inside a group: until the
 * outermost koloGroupEnd), otherwise until koloStreamSynchronize the buffers belong to kolo.
 */
KOLO_MUST_CHECK
koloResult_t koloAllReduce(const void *sendbuff,
                           void *recvbuff,
                           size_t count,
                           koloDataType_t datatype,
                           koloRedOp_t op,
                           koloComm_t comm,
                           koloStream_t stream);

/**
 * Copies `count` elements of `root`'s sendbuff to recvbuff of all ranks; sendbuff of the others
 * is not used. In place: sendbuff == recvbuff on the root.
 */
KOLO_MUST_CHECK
koloResult_t koloBroadcast(const void *sendbuff,
                           void *recvbuff,
                           size_t count,
                           koloDataType_t datatype,
                           int root,
                           koloComm_t comm,
                           koloStream_t stream);

/**
 * koloBroadcast with one buffer: read on the root, written on the others.
 */
KOLO_MUST_CHECK
koloResult_t koloBcast(void *buff,
                       size_t count,
                       koloDataType_t datatype,
                       int root,
                       koloComm_t comm,
                       koloStream_t stream);

/**
 * Reduces `count` elements of all ranks with `op` into recvbuff of `root`; recvbuff of the others
 * is not used. In place: sendbuff == recvbuff on the root.
 */
KOLO_MUST_CHECK
koloResult_t koloReduce(const void *sendbuff,
                        void *recvbuff,
                        size_t count,
                        koloDataType_t datatype,
                        koloRedOp_t op,
                        int root,
                        koloComm_t comm,
                        koloStream_t stream);

/**
 * Collects `sendcount` elements of every rank in recvbuff of all ranks (nranks * sendcount
 * elements, in rank order). In place: sendbuff == recvbuff + rank * sendcount elements.
 */
KOLO_MUST_CHECK
koloResult_t koloAllGather(const void *sendbuff,
                           void *recvbuff,
                           size_t sendcount,
                           koloDataType_t datatype,
                           koloComm_t comm,
                           koloStream_t stream);

/**
 * Reduces nranks * recvcount elements of all ranks with `op`; rank r gets block r (`recvcount`
 * elements). In place: recvbuff == sendbuff + rank * recvcount elements.
 */
KOLO_MUST_CHECK
koloResult_t koloReduceScatter(const void *sendbuff,
                               void *recvbuff,
                               size_t recvcount,
                               koloDataType_t datatype,
                               koloRedOp_t op,
                               koloComm_t comm,
                               koloStream_t stream);

/**
 * Block p of sendbuff goes to rank p, block p of recvbuff comes from rank p; `count` elements in
 * each of the nranks blocks. Not in place.
 */
KOLO_MUST_CHECK
koloResult_t koloAllToAll(const void *sendbuff,
                          void *recvbuff,
                          size_t count,
                          koloDataType_t datatype,
                          koloComm_t comm,
                          koloStream_t stream);

/**
 * Collects `sendcount` elements of every rank in recvbuff of `root` (nranks * sendcount elements,
 * in rank order); recvbuff of the others is not used. In place on the root: sendbuff == recvbuff +
 * root * sendcount elements.
 */
KOLO_MUST_CHECK
koloResult_t koloGather(const void *sendbuff,
                        void *recvbuff,
                        size_t sendcount,
                        koloDataType_t datatype,
                        int root,
                        koloComm_t comm,
                        koloStream_t stream);

/**
 * Block r of `root`'s sendbuff (nranks * recvcount elements) goes to rank r; sendbuff of the
 * others is not used. In place on the root: recvbuff == sendbuff + root * recvcount elements.
 */
KOLO_MUST_CHECK
koloResult_t koloScatter(const void *sendbuff,
                         void *recvbuff,
                         size_t recvcount,
                         koloDataType_t datatype,
                         int root,
                         koloComm_t comm,
                         koloStream_t stream);

/**
 * Reduces `count` elements of ranks 0 to r with `op`; rank r gets the result, in the order of
 * ranks. koloAvg is refused. In place: sendbuff == recvbuff.
 */
KOLO_MUST_CHECK
koloResult_t koloScan(const void *sendbuff,
                      void *recvbuff,
                      size_t count,
                      koloDataType_t datatype,
                      koloRedOp_t op,
                      koloComm_t comm,
                      koloStream_t stream);

/**
 * koloScan of ranks 0 to r - 1; recvbuff of rank 0 is not used.
 */
KOLO_MUST_CHECK
koloResult_t koloExscan(const void *sendbuff,
                        void *recvbuff,
                        size_t count,
                        koloDataType_t datatype,
                        koloRedOp_t op,
                        koloComm_t comm,
                        koloStream_t stream);

/**
 * Returns when all ranks have called.
 */
KOLO_MUST_CHECK
koloResult_t koloBarrier(koloComm_t comm, koloStream_t stream);

/**
 * Sends `count` elements to rank `peer`, which receives them by koloRecv with the same count and
 * datatype; the calls between two ranks match in order. It may wait until that rank receives:
 * sends and receives that wait for each other belong into one group. A rank may send to itself
 * inside a group. To KOLO_NO_RANK nothing is sent: the call ends at once and looks at no buffer.
 * On communicators of koloCommInitMPI, and what was split from them, MPI_PROC_NULL means the same.
 */
KOLO_MUST_CHECK
koloResult_t koloSend(const void *sendbuff,
                      size_t count,
                      koloDataType_t datatype,
                      int peer,
                      koloComm_t comm,
                      koloStream_t stream);

/**
 * Receives what rank `peer` sends by koloSend; from KOLO_NO_RANK (and MPI_PROC_NULL) nothing.
 * Count and datatype are those of the send: unlike in MPI a shorter message is an error.
 */
KOLO_MUST_CHECK
koloResult_t koloRecv(void *recvbuff,
                      size_t count,
                      koloDataType_t datatype,
                      int peer,
                      koloComm_t comm,
                      koloStream_t stream);

/**
 * koloSend to `dest` and koloRecv from `source` at once, as in a group of the two: neither waits
 * for the other. The other ends may be koloSend, koloRecv or koloSendRecv. `dest` and `source`
 * may be the same rank, this one, or KOLO_NO_RANK; the buffers do not overlap.
 */
KOLO_MUST_CHECK
koloResult_t koloSendRecv(const void *sendbuff,
                          size_t sendcount,
                          int dest,
                          void *recvbuff,
                          size_t recvcount,
                          int source,
                          koloDataType_t datatype,
                          koloComm_t comm,
                          koloStream_t stream);

/**
 * Collects `sendcount` elements of this rank, and those of all others, in recvbuff of all ranks:
 * recvcounts[r] elements of rank r at element displs[r] (displs NULL: one behind the other). All
 * ranks give the same recvcounts; recvcounts[rank] == sendcount. In place: sendbuff == recvbuff +
 * displs[rank] elements.
 * Errors of this and the following calls: those of koloAllReduce; koloInvalidArgument also for
 * counts and displacements that are negative or too large, blocks that overlap, and NULL arrays;
 * koloInvalidUsage for sizes of a block that differ between its sender and its receiver. Blocks
 * of 0 elements are allowed. The arrays are only read during the call.
 */
KOLO_MUST_CHECK
koloResult_t koloAllGatherV(const void *sendbuff,
                            size_t sendcount,
                            void *recvbuff,
                            const size_t *recvcounts,
                            const size_t *displs,
                            koloDataType_t datatype,
                            koloComm_t comm,
                            koloStream_t stream);

/**
 * koloAllGatherV to `root` only; recvbuff, recvcounts and displs of the others are not used. In
 * place on the root: sendbuff == recvbuff + displs[root] elements.
 */
KOLO_MUST_CHECK
koloResult_t koloGatherV(const void *sendbuff,
                         size_t sendcount,
                         void *recvbuff,
                         const size_t *recvcounts,
                         const size_t *displs,
                         koloDataType_t datatype,
                         int root,
                         koloComm_t comm,
                         koloStream_t stream);

/**
 * sendcounts[r] elements at element displs[r] of `root`'s sendbuff go to rank r (displs NULL: one
 * behind the other), which expects recvcount; sendbuff, sendcounts and displs of the others are
 * not used. In place on the root: recvbuff == sendbuff + displs[root] elements.
 */
KOLO_MUST_CHECK
koloResult_t koloScatterV(const void *sendbuff,
                          const size_t *sendcounts,
                          const size_t *displs,
                          void *recvbuff,
                          size_t recvcount,
                          koloDataType_t datatype,
                          int root,
                          koloComm_t comm,
                          koloStream_t stream);

/**
 * Reduces the elements of all ranks with `op`, in the order of ranks; rank r gets block r. Block r
 * has recvcounts[r] elements, one block behind the other; all ranks give the same recvcounts. In
 * place: recvbuff is the own block in sendbuff.
 */
KOLO_MUST_CHECK
koloResult_t koloReduceScatterV(const void *sendbuff,
                                void *recvbuff,
                                const size_t *recvcounts,
                                koloDataType_t datatype,
                                koloRedOp_t op,
                                koloComm_t comm,
                                koloStream_t stream);

/**
 * sendcounts[p] elements at element sdispls[p] of sendbuff go to rank p; recvcounts[p] elements at
 * element rdispls[p] of recvbuff come from rank p (displacements NULL: one behind the other). Not
 * in place.
 */
KOLO_MUST_CHECK
koloResult_t koloAllToAllV(const void *sendbuff,
                           const size_t *sendcounts,
                           const size_t *sdispls,
                           void *recvbuff,
                           const size_t *recvcounts,
                           const size_t *rdispls,
                           koloDataType_t datatype,
                           koloComm_t comm,
                           koloStream_t stream);

/**
 * Collects `count` elements of every source of `graph` in recvbuff, in the order of the sources.
 * Blocks of missing neighbours are left alone. Not in place.
 */
KOLO_MUST_CHECK
koloResult_t koloNeighborAllGather(const void *sendbuff,
                                   void *recvbuff,
                                   size_t count,
                                   koloDataType_t datatype,
                                   koloGraph_t graph,
                                   koloStream_t stream);

/**
 * koloNeighborAllGather of different sizes: recvcounts[i] elements of source i at element
 * displs[i] (displs NULL: one behind the other).
 */
KOLO_MUST_CHECK
koloResult_t koloNeighborAllGatherV(const void *sendbuff,
                                    size_t sendcount,
                                    void *recvbuff,
                                    const size_t *recvcounts,
                                    const size_t *displs,
                                    koloDataType_t datatype,
                                    koloGraph_t graph,
                                    koloStream_t stream);

/**
 * Block i of sendbuff goes to destination i of `graph`, block i of recvbuff comes from source i;
 * `count` elements in each. Not in place.
 */
KOLO_MUST_CHECK
koloResult_t koloNeighborAllToAll(const void *sendbuff,
                                  void *recvbuff,
                                  size_t count,
                                  koloDataType_t datatype,
                                  koloGraph_t graph,
                                  koloStream_t stream);

/**
 * koloNeighborAllToAll of different sizes: sendcounts[i] elements at element sdispls[i] for
 * destination i, recvcounts[i] elements at element rdispls[i] of source i (displacements NULL: one
 * behind the other).
 */
KOLO_MUST_CHECK
koloResult_t koloNeighborAllToAllV(const void *sendbuff,
                                   const size_t *sendcounts,
                                   const size_t *sdispls,
                                   void *recvbuff,
                                   const size_t *recvcounts,
                                   const size_t *rdispls,
                                   koloDataType_t datatype,
                                   koloGraph_t graph,
                                   koloStream_t stream);

/**
 * Makes the graph of the neighbours: the `indegree` ranks of `sources` send to this rank, the
 * `outdegree` ranks of `destinations` receive from it. Every rank calls it. A rank may occur
 * several times and may be the own one: the k-th edge from a to b among a's destinations is the
 * k-th among b's sources. KOLO_NO_RANK makes a block that is not exchanged, and so does
 * MPI_PROC_NULL on communicators of koloCommInitMPI. Edges have no weights.
 * End it with koloGraphDestroy, before its communicator.
 * Errors: koloInvalidArgument (handle, NULL, a neighbour that is no rank, an edge that only one of
 * its ends lists; then on all ranks), koloInvalidUsage (inside a group), those of koloAllReduce.
 */
KOLO_MUST_CHECK
koloResult_t koloGraphCreate(koloComm_t comm,
                             int indegree,
                             const int *sources,
                             int outdegree,
                             const int *destinations,
                             koloGraph_t *graph);

/**
 * Makes the symmetric graph of a grid of `ndims` dimensions: for each dimension the neighbour
 * below and the one above, none (KOLO_NO_RANK) beyond the end of a dimension whose `periods` is 0.
 * Ranks are numbered row by row, the last dimension fastest. In a periodic dimension of one or two
 * ranks, what goes down arrives from above. Every rank calls it with the same grid.
 * Errors: koloInvalidArgument (handle, NULL, a grid that has not as many places as the
 * communicator ranks), koloInvalidUsage (inside a group), those of koloAllReduce.
 */
KOLO_MUST_CHECK
koloResult_t koloCartCreate(koloComm_t comm,
                            int ndims,
                            const int *dims,
                            const int *periods,
                            koloGraph_t *graph);

/**
 * Ends a graph; calls that use it may still be pending. Errors: koloInvalidArgument (handle).
 */
koloResult_t koloGraphDestroy(koloGraph_t graph);

/**
 * The numbers of blocks that come in and that go out, missing neighbours included.
 * Errors: koloInvalidArgument (handle, NULL).
 */
KOLO_MUST_CHECK
koloResult_t koloGraphDegrees(koloGraph_t graph, int *indegree, int *outdegree);

/**
 * The neighbours, block by block, KOLO_NO_RANK for missing ones: as many as koloGraphDegrees says.
 * Errors: koloInvalidArgument (handle, NULL).
 */
KOLO_MUST_CHECK
koloResult_t koloGraphNeighbors(koloGraph_t graph, int *sources, int *destinations);

/**
 * The correctly rounded sum of all elements of all ranks in `*result` of every rank: the same
 * bits for every number of ranks and every distribution of the elements over them. Ranks may have
 * different counts, also 0; the sum of nothing is +0. NaN and infinities follow IEEE 754. Blocks;
 * not inside a group (use koloSumExact in koloAllReduce there).
 * Errors: those of koloAllReduce; koloInvalidArgument (result NULL, local NULL with count > 0).
 */
KOLO_MUST_CHECK
koloResult_t koloSumExactDouble(const double *local, size_t count, double *result, koloComm_t comm);

/**
 * koloSumExactDouble of floats: the float nearest to the exact sum.
 */
KOLO_MUST_CHECK
koloResult_t koloSumExactFloat(const float *local, size_t count, float *result, koloComm_t comm);

/**
 * koloSumExactDouble of the elements whose byte in `mask` is not zero.
 */
KOLO_MUST_CHECK
koloResult_t koloSumExactDoubleMasked(const double *local,
                                      const unsigned char *mask,
                                      size_t count,
                                      double *result,
                                      koloComm_t comm);

/**
 * koloSumExactFloat of the elements whose byte in `mask` is not zero.
 */
KOLO_MUST_CHECK
koloResult_t koloSumExactFloatMasked(const float *local,
                                     const unsigned char *mask,
                                     size_t count,
                                     float *result,
                                     koloComm_t comm);

/**
 * koloSumExactDouble of an array of up to 15 dimensions, with gaps and a mask.
 * An element is `parts` (1 or 2) numbers of type `datatype` (koloFloat32 or koloFloat64), each
 * summed by itself: 1 for real, 2 for complex numbers; `result` has room for `parts` numbers.
 * `extents` counts the elements along each dimension; `strides` are the bytes from one element to
 * the next along it, also negative; NULL means packed, the first dimension fastest. `rank` 0 is
 * one element. `mask` is NULL, or has an entry of `maskbytes` bytes for each element: the element
 * counts if a byte of it is not zero; `maskstrides` is as `strides`.
 * Errors: those of koloSumExactDouble; koloInvalidArgument (datatype, rank, parts, extents).
 */
KOLO_MUST_CHECK
koloResult_t koloSumExactArray(const void *first,
                               koloDataType_t datatype,
                               size_t parts,
                               int rank,
                               const size_t *extents,
                               const ptrdiff_t *strides,
                               const void *mask,
                               size_t maskbytes,
                               const ptrdiff_t *maskstrides,
                               void *result,
                               koloComm_t comm);

/**
 * Makes an operation that multiplies every rank's elements by that rank's `*scalar` (of type
 * `datatype`) and sums them. Only for calls on `comm` with the same `datatype`. `residence` says
 * when the scalar is read: before this call returns, or at every call that uses the operation.
 * End it with koloRedOpDestroy.
 * Errors: koloInvalidArgument (handle, NULL, unknown datatype or residence).
 */
KOLO_MUST_CHECK
koloResult_t koloRedOpCreatePreMulSum(koloRedOp_t *op,
                                      const void *scalar,
                                      koloDataType_t datatype,
                                      koloScalarResidence_t residence,
                                      koloComm_t comm);

/**
 * Makes an operation of a function, for all data types: it gets the type of the call and
 * `context`. All ranks must make it alike. With `commute` 0, contributions are combined in the
 * order of ranks (in blocks of elements, perhaps with other brackets: the function must be
 * associative); otherwise in any order that all ranks share. `function` and `context` must live
 * until the operation is destroyed and its calls have ended. The function is called only on
 * threads that are inside a call of kolo, perhaps of another communicator. It must not call kolo:
 * a call on the communicator that runs it is refused, and stops that communicator on all ranks.
 * A function that knows one data type is better made by koloRedOpCreateUserFor.
 * Errors: koloInvalidArgument (handle, NULL).
 */
KOLO_MUST_CHECK
koloResult_t koloRedOpCreateUser(koloRedOp_t *op,
                                 koloUserFunction_t function,
                                 void *context,
                                 int commute,
                                 koloComm_t comm);

/**
 * As koloRedOpCreateUser, of a function that knows one data type: calls with another one are
 * errors (koloInvalidArgument) before anything is touched, where the function would run over the
 * ends of the buffers or combine something else.
 * Errors: koloInvalidArgument (handle, NULL, unknown datatype).
 */
KOLO_MUST_CHECK
koloResult_t koloRedOpCreateUserFor(koloRedOp_t *op,
                                    koloUserFunction_t function,
                                    void *context,
                                    int commute,
                                    koloDataType_t datatype,
                                    koloComm_t comm);

/**
 * Ends an operation of koloRedOpCreatePreMulSum, koloRedOpCreateUser or koloRedOpCreateUserFor.
 * Calls that use it may still be pending.
 * Errors: koloInvalidArgument (handle, an operation that is built in or not alive on `comm`).
 */
koloResult_t koloRedOpDestroy(koloRedOp_t op, koloComm_t comm);

/**
 * Writes to `*route` how a call of `count` elements would go: `call` is its name without "kolo",
 * such as "AllReduce" or "Send". Way, algorithm, protocol and channels are the same on all ranks.
 * The form, which ends the words, is this rank's own: that of a blocking call of it while nothing
 * else is in flight. `count` is that of the call (of calls with blocks of different sizes it is
 * ignored), `op` counts for reductions only. Nothing is sent and no call is counted, so one rank
 * may ask alone. `route->size` must be set: KOLO_ROUTE_INITIALIZER does so.
 * Errors: koloInvalidArgument (handle, NULL, unknown call, datatype or op; what no rank may call,
 * with the reason), koloInvalidUsage (destroyed communicator, two threads at once).
 */
KOLO_MUST_CHECK
koloResult_t koloCommGetRoute(const char *call,
                              size_t count,
                              koloDataType_t datatype,
                              koloRedOp_t op,
                              koloComm_t comm,
                              koloRoute_t *route);

/**
 * Writes the value that the setting `key` has in this process, with its zero byte, to `value`,
 * where `bytes` bytes are. Settings are read as for a new communicator; docs/settings.md lists
 * the keys.
 * Errors: koloInvalidArgument (NULL, unknown key, a longer value), koloInvalidUsage (a setting is
 * wrong, of whatever key), koloSystemError (a file that cannot be read). Settings that are wrong
 * are no line on stderr, only a sentence of koloGetLastError. Any thread, any time.
 */
KOLO_MUST_CHECK
koloResult_t koloGetSetting(const char *key, char *value, size_t bytes);

/**
 * Makes a stream. Errors: koloInvalidArgument (NULL), koloSystemError. Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloStreamCreate(koloStream_t *stream);

/**
 * Waits for the operations of `stream` and frees it; the handle is invalid afterwards, whatever
 * is returned, but for koloInvalidUsage: then nothing was done.
 * Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group, or an operation of the
 * program), those of the operations.
 */
KOLO_MUST_CHECK
koloResult_t koloStreamDestroy(koloStream_t stream);

/**
 * Waits until all operations of `stream` have ended: their receive buffers are filled, their send
 * buffers may be changed.
 * Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group, whose calls begin when
 * it ends), those of the operations.
 */
KOLO_MUST_CHECK
koloResult_t koloStreamSynchronize(koloStream_t stream);

/**
 * koloSuccess when all operations of `stream` have ended, koloInProgress while some are pending
 * (no error, no sentence). Moves them on, does not wait.
 * Errors: koloInvalidArgument (handle), koloInvalidUsage (inside a group), those of the
 * operations.
 */
KOLO_MUST_CHECK
koloResult_t koloStreamQuery(koloStream_t stream);

/**
 * Waits until the call of `*request` has ended: its receive buffers are filled, its send buffers
 * may be changed. Sets `*request` to NULL, but not when it returns koloInvalidUsage; a NULL
 * request has ended. Calls of a communicator end in the order in which they were begun, sends and
 * receives that were begun one behind the other in any order.
 * Errors: koloInvalidArgument (NULL, handle), koloInvalidUsage (inside a group, or an operation of
 * the program), those of the call.
 */
KOLO_MUST_CHECK
koloResult_t koloWait(koloRequest_t *request);

/**
 * koloWait for `count` requests. All of them have ended when it returns.
 * Errors: as koloWait; the first one of those of the calls.
 */
KOLO_MUST_CHECK
koloResult_t koloWaitAll(size_t count, koloRequest_t *requests);

/**
 * Sets `*done` to 1 and `*request` to NULL if the call has ended, else `*done` to 0. Moves calls
 * on, does not wait. A NULL request has ended.
 * Errors: as koloWait.
 */
KOLO_MUST_CHECK
koloResult_t koloTest(koloRequest_t *request, int *done);

/**
 * Allocates `bytes` bytes, zeroed and page-aligned, that kolo can share between the ranks of a
 * node; calls on such buffers may run with fewer copies. 0 bytes give NULL. Not inherited over
 * fork(). Errors: koloInvalidArgument (NULL, size), koloSystemError (no memory). Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloMemAlloc(void **ptr, size_t bytes);

/**
 * Allocates `bytes` bytes on CUDA device `device`, as the process numbers them, aligned to 2 MiB
 * and not zeroed. Other than memory of cudaMalloc, it can be given to other processes, and all
 * devices of the process that reach the device may use it. 0 bytes give NULL. Does not wait for
 * the device. Errors: koloInvalidArgument (NULL, size, device), koloInvalidUsage (no driver, no
 * such device), koloUnhandledCudaError (no memory). Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloMemAllocDevice(void **ptr, size_t bytes, int device);

/**
 * Frees memory of koloMemAlloc or koloMemAllocDevice; NULL is allowed. No operation may still use
 * it.
 * Errors: koloInvalidArgument (not the start of a live allocation). Any thread.
 */
koloResult_t koloMemFree(void *ptr);

/**
 * Registers the `size` bytes at `buff`, memory of the program's own: large calls on them, or on
 * parts of them, are then read by the ranks of the node where they lie, as memory of koloMemAlloc
 * is, where all ranks have registered theirs. Writes a handle to `*handle`. Each rank calls it for
 * itself; not deferred by a group.
 * The whole pages of the buffer are moved onto a file in memory, at the same addresses and with
 * the same content; its bytes before and behind them stay where they are. Until the call returns,
 * and while the registration ends, no thread may write into the buffer. That can be done with
 * malloc's memory and that of an anonymous private mmap; memory of koloMemAlloc needs none of it;
 * a memfd that is sealed against shrinking stays as it is. Stacks, variables with initial values
 * and what shares a page with such, other files, locked pages (mlock), pages of hugetlbfs and
 * devices are refused. Where it gains nothing nothing is moved, and the call succeeds: ranks that
 * are threads of one process or alone on their node, communicators of CUDA devices.
 * Deregister before the memory is freed, reallocated or given to another allocator. Meanwhile
 * madvise(MADV_DONTNEED) leaves the content. A child of fork() has the pages privately, and finds
 * zeros in the buffer once the registration has ended here: it must copy what it needs at once.
 * Errors: koloInvalidArgument (handle, NULL, memory that cannot be moved, with the reason),
 * koloSystemError (limits), koloInvalidUsage (finalised), koloRemoteError; nothing has changed
 * then. Any thread.
 */
KOLO_MUST_CHECK
koloResult_t koloCommRegister(koloComm_t comm, void *buff, size_t size, void **handle);

/**
 * Ends a registration of koloCommRegister, after the last call on the buffer. Memory that nobody
 * else has registered is moved back, with its content; no thread may write into it meanwhile.
 * koloCommDestroy does so with what is left, and koloCommAbort with no write of others lost.
 * Errors: koloInvalidArgument (a handle that has ended, of another communicator, or none),
 * koloSystemError (no room to move it back: it stays usable where it is, and the handle has
 * ended). Any thread.
 */
koloResult_t koloCommDeregister(koloComm_t comm, void *handle);

/* Asynchronous calls: each one begins the call without the I and returns at once. Until
 * koloWait, koloTest or koloWaitAll has ended the request, the buffers belong to kolo.
 * Arrays of counts and displacements are only read during the call. */
KOLO_MUST_CHECK
koloResult_t koloIAllReduce(const void *sendbuff,
                            void *recvbuff,
                            size_t count,
                            koloDataType_t datatype,
                            koloRedOp_t op,
                            koloComm_t comm,
                            koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIBroadcast(const void *sendbuff,
                            void *recvbuff,
                            size_t count,
                            koloDataType_t datatype,
                            int root,
                            koloComm_t comm,
                            koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIBcast(void *buff,
                        size_t count,
                        koloDataType_t datatype,
                        int root,
                        koloComm_t comm,
                        koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIReduce(const void *sendbuff,
                         void *recvbuff,
                         size_t count,
                         koloDataType_t datatype,
                         koloRedOp_t op,
                         int root,
                         koloComm_t comm,
                         koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIAllGather(const void *sendbuff,
                            void *recvbuff,
                            size_t sendcount,
                            koloDataType_t datatype,
                            koloComm_t comm,
                            koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIReduceScatter(const void *sendbuff,
                                void *recvbuff,
                                size_t recvcount,
                                koloDataType_t datatype,
                                koloRedOp_t op,
                                koloComm_t comm,
                                koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIAllToAll(const void *sendbuff,
                           void *recvbuff,
                           size_t count,
                           koloDataType_t datatype,
                           koloComm_t comm,
                           koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIGather(const void *sendbuff,
                         void *recvbuff,
                         size_t sendcount,
                         koloDataType_t datatype,
                         int root,
                         koloComm_t comm,
                         koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIScatter(const void *sendbuff,
                          void *recvbuff,
                          size_t recvcount,
                          koloDataType_t datatype,
                          int root,
                          koloComm_t comm,
                          koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIScan(const void *sendbuff,
                       void *recvbuff,
                       size_t count,
                       koloDataType_t datatype,
                       koloRedOp_t op,
                       koloComm_t comm,
                       koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIExscan(const void *sendbuff,
                         void *recvbuff,
                         size_t count,
                         koloDataType_t datatype,
                         koloRedOp_t op,
                         koloComm_t comm,
                         koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIBarrier(koloComm_t comm, koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloISend(const void *sendbuff,
                       size_t count,
                       koloDataType_t datatype,
                       int peer,
                       koloComm_t comm,
                       koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIRecv(void *recvbuff,
                       size_t count,
                       koloDataType_t datatype,
                       int peer,
                       koloComm_t comm,
                       koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloISendRecv(const void *sendbuff,
                           size_t sendcount,
                           int dest,
                           void *recvbuff,
                           size_t recvcount,
                           int source,
                           koloDataType_t datatype,
                           koloComm_t comm,
                           koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIAllGatherV(const void *sendbuff,
                             size_t sendcount,
                             void *recvbuff,
                             const size_t *recvcounts,
                             const size_t *displs,
                             koloDataType_t datatype,
                             koloComm_t comm,
                             koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIGatherV(const void *sendbuff,
                          size_t sendcount,
                          void *recvbuff,
                          const size_t *recvcounts,
                          const size_t *displs,
                          koloDataType_t datatype,
                          int root,
                          koloComm_t comm,
                          koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIScatterV(const void *sendbuff,
                           const size_t *sendcounts,
                           const size_t *displs,
                           void *recvbuff,
                           size_t recvcount,
                           koloDataType_t datatype,
                           int root,
                           koloComm_t comm,
                           koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIReduceScatterV(const void *sendbuff,
                                 void *recvbuff,
                                 const size_t *recvcounts,
                                 koloDataType_t datatype,
                                 koloRedOp_t op,
                                 koloComm_t comm,
                                 koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloIAllToAllV(const void *sendbuff,
                            const size_t *sendcounts,
                            const size_t *sdispls,
                            void *recvbuff,
                            const size_t *recvcounts,
                            const size_t *rdispls,
                            koloDataType_t datatype,
                            koloComm_t comm,
                            koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloINeighborAllGather(const void *sendbuff,
                                    void *recvbuff,
                                    size_t count,
                                    koloDataType_t datatype,
                                    koloGraph_t graph,
                                    koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloINeighborAllGatherV(const void *sendbuff,
                                     size_t sendcount,
                                     void *recvbuff,
                                     const size_t *recvcounts,
                                     const size_t *displs,
                                     koloDataType_t datatype,
                                     koloGraph_t graph,
                                     koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloINeighborAllToAll(const void *sendbuff,
                                   void *recvbuff,
                                   size_t count,
                                   koloDataType_t datatype,
                                   koloGraph_t graph,
                                   koloRequest_t *request);

KOLO_MUST_CHECK
koloResult_t koloINeighborAllToAllV(const void *sendbuff,
                                    const size_t *sendcounts,
                                    const size_t *sdispls,
                                    void *recvbuff,
                                    const size_t *recvcounts,
                                    const size_t *rdispls,
                                    koloDataType_t datatype,
                                    koloGraph_t graph,
                                    koloRequest_t *request);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KOLO_H */
