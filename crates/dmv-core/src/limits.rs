//! The bounds on everything that is read from a disk or a peer.
//!
//! Every decoder compares a length or count with these bounds before it allocates memory for it.
//! The names give the units. The module uses no other module, and every room that decodes uses it.

/// Largest chunk that a decoder accepts. The standard cutter makes chunks of at most a quarter of
/// this.
pub(crate) const MAX_CHUNK_BYTES: usize = 1 << 20;
/// Largest encoded list, tree, conflict or commit.
pub const MAX_OBJECT_BYTES: usize = 1 << 20;
/// Fewest entries of a node, unless it is the last one of its level.
pub(crate) const NODE_MIN: usize = 32;
/// Most entries of a node: it always ends here.
pub(crate) const NODE_MAX: usize = 512;
/// Number of bits of the boundary hash that must be zero for a node to end between [`NODE_MIN`] and
/// [`NODE_MAX`] entries.
pub(crate) const NODE_BITS: u32 = 7;
/// Greatest level of a list or tree node. 32^12 entries is more than any file system holds.
pub(crate) const MAX_NODE_LEVEL: u8 = 12;
/// Names in one directory.
pub(crate) const MAX_DIR_ENTRIES: u64 = 16 << 20;
/// Bytes in one path component.
pub(crate) const MAX_NAME_BYTES: usize = 255;
/// Bytes in one path from the root, separators included.
pub const MAX_PATH_BYTES: usize = 32 << 10;
/// Components in one path.
pub(crate) const MAX_PATH_DEPTH: usize = 1024;
/// Bytes in a symlink's target.
pub const MAX_SYMLINK_BYTES: usize = 4095;
/// Bytes of optional attributes on one tree entry.
pub const MAX_ATTR_BYTES: usize = 1024;
/// Bytes of the encoded extended attributes of one tree entry. The others have room beside them.
pub const MAX_XATTRS_BYTES: usize = 896;
/// Extended attributes of one tree entry.
pub const MAX_XATTRS: usize = 64;
/// Bytes of the name of one, without `user.`: with it, Linux allows 255.
pub const MAX_XATTR_NAME_BYTES: usize = 250;
/// Terms on either side of a conflict.
pub(crate) const MAX_CONFLICT_TERMS: usize = 64;
/// Parents of a commit.
pub(crate) const MAX_PARENTS: usize = 64;
/// Annotated tags that tag each other.
pub const MAX_TAG_DEPTH: usize = 16;
/// Bytes of a commit message.
pub const MAX_MESSAGE_BYTES: usize = 256 << 10;
/// Bytes of a person's name or address.
pub(crate) const MAX_PERSON_BYTES: usize = 1024;
/// Extra key/value pairs on a commit.
pub(crate) const MAX_EXTRAS: usize = 64;
/// Bytes of one extra value.
pub(crate) const MAX_EXTRA_VALUE_BYTES: usize = 64 << 10;
/// Bytes of all extras of a commit together.
pub(crate) const MAX_EXTRAS_BYTES: usize = 256 << 10;
/// Bytes of a signature.
pub(crate) const MAX_SIGNATURE_BYTES: usize = 16 << 10;
/// Raw bytes in one frame.
pub const MAX_FRAME_BYTES: usize = 2 << 20;
/// Bytes of a frame's table.
pub const MAX_TABLE_BYTES: usize = 1 << 20;
/// Raw bytes of all base objects of one frame.
pub(crate) const MAX_BASE_BYTES: usize = 8 << 20;
/// Base objects of one frame.
pub(crate) const MAX_BASE_OBJECTS: usize = 64;
/// Base-two logarithm of the largest zstd window accepted.
pub(crate) const MAX_WINDOW_LOG: u32 = 23;
/// Entries in one segment of a pack.
pub const MAX_SEGMENT_ENTRIES: usize = 512 << 10;
/// Size in bytes above which a pack accepts no further segment.
pub(crate) const PACK_FULL_BYTES: u64 = 4 << 30;
/// Changes in one operation.
pub(crate) const MAX_OP_CHANGES: usize = 65_536;
/// Bytes of one operation record's payload.
pub(crate) const MAX_OP_BYTES: usize = 64 << 20;
/// Bytes of a ref's name.
pub(crate) const MAX_REF_BYTES: usize = 255;
/// Bytes of one ignore file.
pub(crate) const MAX_IGNORE_BYTES: u64 = 1 << 20;
/// Bytes of a text that is merged by lines.
pub(crate) const MAX_MERGE_TEXT_BYTES: u64 = 8 << 20;
/// Bytes of a text whose lines `blame` traces.
pub(crate) const MAX_BLAME_BYTES: u64 = 64 << 20;
/// Bytes of the versions of a text that `blame` keeps in memory.
pub(crate) const MAX_BLAME_CACHE_BYTES: u64 = 32 << 20;
/// Lines of a text that is compared line by line.
pub(crate) const MAX_DIFF_LINES: usize = 1 << 20;
/// Steps for comparing two texts, in addition to [`DIFF_STEPS_PER_LINE`] for each of their lines.
pub(crate) const DIFF_STEPS: u64 = 32 << 20;
/// Further steps for each line of both texts.
pub(crate) const DIFF_STEPS_PER_LINE: u64 = 128;
/// Removed files, and likewise new files, among which the program looks for renames.
pub(crate) const MAX_RENAME_PATHS: usize = 100_000;
/// Number of pairs (a removed and a new file) up to which every pair is compared. With more pairs,
/// only those that share rare pieces are compared.
pub(crate) const MAX_RENAME_PAIRS: usize = 10_000;
/// Bytes of content read to find files that were moved and changed.
pub(crate) const MAX_RENAME_BYTES: u64 = 256 << 20;
/// Pieces of content that rename detection remembers for all files together, at 16 bytes each.
pub(crate) const MAX_RENAME_PIECES: usize = 1 << 20;
/// Chunks of one file that rename detection looks at.
pub(crate) const MAX_RENAME_CHUNKS: usize = 1 << 18;
/// Merge bases of two commits that are merged with each other.
pub(crate) const MAX_MERGE_BASES: usize = 16;
/// Depth to which merge bases of merge bases are merged with each other.
pub(crate) const MAX_BASE_DEPTH: usize = 256;
/// Bytes of a subset's patterns: the most that one value of the view holds.
pub const MAX_SUBSET_BYTES: usize = 4 * MAX_PATH_BYTES;
/// Patterns with wildcards in one subset.
pub(crate) const MAX_SUBSET_GLOBS: usize = 1024;
/// Components of a pattern with wildcards.
pub(crate) const MAX_SUBSET_GLOB_PARTS: usize = 60;
/// Boundary commits in the slice of a partial repository.
pub(crate) const MAX_SLICE_BOUNDARY: usize = 64 << 10;
/// Dropped blobs in the slice of a partial repository, and likewise expired ones.
pub const MAX_SLICE_DROPPED: usize = 1 << 20;
/// Reasons for which blobs of a slice have expired.
pub(crate) const MAX_SLICE_EXPIRIES: usize = 64 << 10;
/// Purged blobs in the slice of a repository, and likewise their chunks, which are refused.
pub const MAX_SLICE_PURGED: usize = 1 << 20;
/// Blobs of a slice of which a remote has told that it has purged them. More are only dropped.
pub const MAX_SLICE_TOLD: usize = 64 << 10;
/// Reasons of such remotes.
pub(crate) const MAX_SLICE_TOLD_REASONS: usize = 1 << 10;
/// Bytes of the name of such a remote.
pub const MAX_TOLD_PLACE_BYTES: usize = 256;
/// Bytes of the name of who has purged content, and of the reason.
pub(crate) const MAX_PURGE_LINE_BYTES: usize = 1 << 10;
/// Bytes of a keep rule with its pattern.
pub(crate) const MAX_KEEP_LINE_BYTES: usize = 1 << 10;
/// Bytes of all local keep rules together.
pub(crate) const MAX_KEEP_BYTES: usize = 64 << 10;
/// Lines of one attribute file that have a pattern.
pub(crate) const MAX_ATTRIBUTE_LINES: usize = 4096;
/// Attribute files in one commit.
pub(crate) const MAX_ATTRIBUTE_FILES: usize = 4096;
/// Bytes of all attribute files of a commit together.
pub(crate) const MAX_ATTRIBUTE_BYTES: u64 = 16 << 20;
/// Subsets whose paths are requested together.
pub const MAX_UNION_SUBSETS: usize = 16;
/// Bytes of the patterns of these subsets together.
pub const MAX_UNION_BYTES: usize = 4 * MAX_SUBSET_BYTES;
