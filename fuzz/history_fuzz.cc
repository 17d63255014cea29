// A record of a job's history that is read is written as the same bytes. Damage never affects the records
// before it, and whatever is read fits into memory.
#include <algorithm>

#include "base/check.h"
#include "show/history/history_file.h"

using namespace leat::observe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const leat::ByteView input(reinterpret_cast<const std::byte*>(data), size);
  leat::ByteWriter file;
  file.PutRaw(leat::AsBytes(kHistoryMagic));
  Append(Event{.number = 1, .text = "before"}, &file);
  // As a payload, with a checksum that is right.
  file.Put(static_cast<uint32_t>(size));
  file.Put(leat::Checksum(input));
  file.PutRaw(input);
  file.PutRaw(input);

  History history;
  StoredStatus status;
  RecordReader reader(file.view());
  size_t begin = reader.position(), records = 0;
  while (auto record = reader.Next()) {
    leat::ByteWriter again;
    Append(*record, &again);
    // A sample may have figures of a later version.
    const bool sample =
        std::holds_alternative<Sample>(*record) || std::holds_alternative<CoarseSample>(*record);
    LEAT_CHECK(sample ||
               std::ranges::equal(again.view(), file.view().subspan(begin, reader.position() - begin)));
    Apply(std::move(*record), &history, &status);
    begin = reader.position();
    ++records;
  }
  LEAT_CHECK(records >= 1 && history.events().front().text == "before");
  LEAT_CHECK(history.bytes() < size_t{16} << 20);
  (void)history.Query(history.begin_s(), history.end_s(), 10);

  RecordReader whole(input);
  while (whole.Next()) {
  }
  return 0;
}
