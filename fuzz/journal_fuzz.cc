// A journal record that is read is written as the same bytes, plus the fields that it is too old for.
// Damage never affects the records before it.
#include <algorithm>

#include "base/check.h"
#include "storage/checkpoint/journal.h"

using namespace leat::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const leat::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  (void)ParseJournal(input, "fuzz").ok();

  leat::Bytes file = JournalHeader();
  const auto append = [&](leat::ByteView bytes) { file.insert(file.end(), bytes.begin(), bytes.end()); };
  append(EncodeRecord(leat::protocol::IdsReserved{1, 2}, file.size()));
  size_t records = 1;
  if (const auto record = DecodePayload(input); record.ok()) {
    const leat::Bytes again = EncodePayload(*record);
    LEAT_CHECK(again.size() >= size && std::equal(input.begin(), input.end(), again.begin()));
    append(EncodeRecord(*record, file.size()));
    ++records;
  }
  append(input);
  const auto contents = ParseJournal(file, "fuzz");
  LEAT_CHECK(!contents.ok() || contents->records.size() >= records);
  return 0;
}
