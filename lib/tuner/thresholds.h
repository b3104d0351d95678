/*
 * The constants that no model yields, each with the trial that set it. A heading in quotation marks
 * is one of docs/performance-notes.md. Sizes are bytes.
 */
#ifndef RD_THRESHOLDS_H
#define RD_THRESHOLDS_H

/* ---- Channels and pieces (pick.c) ----------------------------------------------------------- */

/* Pieces are halved this often at most: from 128 KiB to 16. "Number and size of slots": all slots
   from 64 KiB on took as long; 64 MiB took 24 ms by slots of 16 KiB, the shortest tried. */
#define RD_HALVINGS 3
/* No shorter pieces. Not measured: the second smallest size at which links are. */
#define RD_PIECE_LEAST (4 << 10)
/* More channels or shorter pieces must save more than this part of the predicted time. Not measured
   itself. "Sockets outside epoll, and one receive a message": a library differs by 2 to 3 % from
   itself. */
#define RD_CUT_GAIN 32

/* ---- Corrections among algorithms of messages (prefer.c) ------------------------------------ */

/*
 * Algorithms are alike whose predicted times differ by this part at most. Among these the fewest
 * rounds win. "Quality of the chosen algorithm": 67 of 72 points were within 10 % of the best, and
 * 55 before this rule.
 */
#define RD_ALIKE 8
/* The same, for blocks below this where ranks have cores of their own. */
#define RD_ALIKE_MOST (512 << 10)
/* The same part on oversubscribed hosts whose messages go through the kernel. It was 4 in that
   trial, and is 3 since the trial of RD_PEERS_ABOVE. */
#define RD_ALIKE_IN_KERNEL 3

/*
 * On oversubscribed hosts, from this block on, the algorithm of the least load wins unless it is
 * predicted to take RD_HEAVY_TIME times as long. Loads that differ by RD_LOAD_ALIKE count as equal.
 * Same trial.
 */
#define RD_HEAVY_LEAST (64 << 10)
#define RD_HEAVY_TIME 2
#define RD_LOAD_ALIKE 5

/*
 * On oversubscribed hosts with shared memory, from this load of a rank on, the fewest peers win
 * among algorithms alike by RD_ALIKE_BY_PEERS. "Fewest rounds or fewest peers on oversubscribed
 * cores": 8 ranks on 2 cores, broadcast of 1 MiB by ring 1.1 ms, by tree 1.4.
 */
#define RD_PEERS_ABOVE (24 << 10)
#define RD_ALIKE_BY_PEERS 2

/*
 * Also there, below RD_LIGHT_MOST: the fewest rounds win within RD_LIGHT_TIME times the predicted
 * time and RD_LIGHT_LOAD halves of the load; below RD_FEW_MOST within RD_FEW_TIME and RD_FEW_LOAD.
 * "One round of messages among oversubscribed ranks". All-reduce by one_round and by doubling on 2
 * cores: 4 ranks 5.2 and 6.1 us; 8 ranks 8 bytes 8.0 and 10.9, 256 bytes 12.3 and 14.2, 1 KiB 18.6
 * and 18.2; 16 ranks 62 and 48.
 */
#define RD_LIGHT_MOST (4 << 10)
#define RD_LIGHT_TIME 2
#define RD_LIGHT_LOAD 3
#define RD_FEW_MOST 512
#define RD_FEW_TIME 3
#define RD_FEW_LOAD 5

/* ---- Direct access (pick.c, comm/buffer_exchange.c) ----------------------------------------- */

/*
 * Smaller blocks go by messages, in mapped memory too: a buffer exchange gains nothing where inputs
 * have just been written, and costs half as much again out of the cold. From this block on, direct
 * access wins unless predicted to take RD_DIRECT_TIME times as long as anything else: its predicted
 * time leaves out bytes in caches. "Short calls and buffer exchanges" has the size. Without the
 * factor, two ranks took 190 us for 1 MiB, with it 47.
 */
#define RD_DIRECT_LEAST (8 << 10)
#define RD_DIRECT_TIME 2
/* After RD_EXCHANGE_TRIES failed buffer exchanges in a row, all of calls of one size, the next is
   RD_EXCHANGE_RETRY_EVERY calls later. Not measured: an exchange costs two messages of a cache
   line. */
#define RD_EXCHANGE_TRIES 8
#define RD_EXCHANGE_RETRY_EVERY 32

/* ---- Calls without a choice of the picker (comm/plan_cache.c) ------------------------------- */

/* User operations on shorter blocks: each rank combines all inputs itself. The size of
   RD_LIGHT_MOST, and its trial. */
#define RD_IN_TURN_LEAST (4 << 10)
/*
 * Blocks of different lengths are predicted as RD_VCOUNTS_SHORT up to a mean of RD_VCOUNTS_MEAN,
 * which is as many times the one as the other is that; above it as RD_VCOUNTS_LONG. Not measured.
 */
#define RD_VCOUNTS_SHORT (4 << 10)
#define RD_VCOUNTS_MEAN (128 << 10)
#define RD_VCOUNTS_LONG (4 << 20)

/* ---- Replays (schedule.c, predict.c) -------------------------------------------------------- */

/*
 * A schedule of more ranks or events is not replayed: the costs of RD_SAMPLED ranks are added up.
 * With 64 ranks the first call of a kind took 50 ms before, and takes 1 to 2 since.
 */
#define RD_REPLAYED_MAX 64
#define RD_REPLAYED_EVENTS_MAX 6144
#define RD_SAMPLED 8
/* Ranks beside them: two whose neighbour by number or along the line is on another host, and the
   busiest one of the path. */
#define RD_SAMPLED_EDGES 3
/* Steps of plans that are written to follow a path (path.h), which takes 0.6 ms. The rest of a
   longer path is estimated; where nothing shows its length, after four times as many steps. */
#define RD_PATH_STEPS (32 << 10)
/* Schedules that are added up assume that one message in this many waits for its receiver's turn on
   a core. Replays of 64 ranks on two cores had one in 4 to 40; this was within twice their time. */
#define RD_TURNS_ONE_IN 8
/* Where ranks share cores, at most so many of a core's begin in a replay of their own. Not
   measured: 8 ranks on two cores, the most that were tried, have 4. */
#define RD_REPLAYED_TURNS 4
/* Pieces that are replayed one by one; each later piece takes as long as the last of them.
   "Predicted cost on oversubscribed cores" has the bound that mends what this leaves out. */
#define RD_REPLAYED_PIECES 3

/* ---- Measured costs (samples.c, settle.c, cost.c) ------------------------------------------- */

/* A sample above RD_OUTLIER times the cost expected from smaller messages counts where another is
   within RD_CONFIRMS times. A preempted rank had measured 400 ms for 0.4. */
#define RD_OUTLIER 4
#define RD_CONFIRMS 2
/* Costs above RD_UNUSUAL times their usual are measured again (settle.c). Idle hosts were within
   four times. With other work on the cores, one comm's costs reached a thousand times another's. */
#define RD_UNUSUAL 10
/* A core's own caches, where their size is unknown. Not measured: a usual second-level cache. */
#define RD_CACHE_BYTES (1 << 20)

/* ---- Past the caches (exec/block.h, comm/calibrate_links.c) ---------------------------------- */

/* Shorter messages stay in the caches. "Slots past the caches": between cores that are far apart,
   4 KiB took half the time past them. */
#define RD_PAST_LEAST (4 << 10)
/* Going past them must save more than this part of a message's time: the next reader fetches the
   bytes from memory, whose bandwidth other ranks may need. Not measured. */
#define RD_PAST_GAIN 4

/* ---- Single copy or slots (single_copy.c, comm/run.c) --------------------------------------- */

/* Blocks below this go through slots. Not measured itself: "Single copy or slots" has 1.1 us for
   the system call, as long as a slot takes for 16 KiB. */
#define RD_SINGLE_COPY_LEAST (32 << 10)
/* A trial is RD_STRETCH calls, four times, at the start of each period; RD_LONG_STRETCH from
   RD_LONG_LEAST on. Short calls vary more, long ones are expensive. Not measured. */
#define RD_TRIAL_PERIOD 1024
#define RD_STRETCH 4
#define RD_LONG_STRETCH 2
#define RD_LONG_LEAST (1 << 20)
/* Single copy must save more than this part of the time by slots, because its sender waits until
   its memory has been read. "Single copy or slots" has gains and losses of 13 to 20 %. */
#define RD_SINGLE_COPY_GAIN 20

#endif
