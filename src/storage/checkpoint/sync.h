// The calls that make files durable. Each has its own source file, so that tests/power_cut can link a program
// without one of them and show that it loses checkpoints.
#pragma once

namespace leat::checkpoint {

// As fdatasync: content and size of a file.
int SyncData(int fd);
// As fsync of a directory: its entries.
int SyncEntries(int fd);

}  // namespace leat::checkpoint
