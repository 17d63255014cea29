#include "stream/avro/avro_decoder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/exit_status.h"
#include "stream/avro/avro_program.h"
#include "stream/decode/row_writer.h"
#include "stream/framing.h"

namespace leat::stream {
namespace {

// A registry's schemas are asked for again if a stream has more.
constexpr size_t kMaxPrograms = 1000;

// `where`: the place in the job of the field that does not fit; may be empty.
Result<AvroProgram> CompileText(const std::string& text, const Schema& schema, const Writers& writers,
                                std::string* where) {
  where->clear();
  LEAT_ASSIGN_OR_RETURN(AvroSchema avro, AvroSchema::Parse(text));
  return AvroProgram::Compile(std::move(avro), schema, writers, schema.avro.framed(), where);
}

// The schema's name in messages.
std::string WriterName(const AvroSettings& avro, uint32_t id) {
  if (!avro.framed()) return avro.file;
  if (const auto file = avro.files.find(id); file != avro.files.end()) return file->second;
  return avro.folder + "/" + std::to_string(id) + ".avsc";
}

class AvroDecoder final : public Decoder {
 public:
  AvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry)
      : schema_(schema), writers_(MakeWriters(schema_)), registry_(std::move(registry)) {
    for (const auto& [id, text] : schema_.avro.texts) {
      std::string where;
      auto program = CompileText(text, schema_, writers_, &where);
      if (!program.ok())
        throw std::invalid_argument(WriterName(schema_.avro, id) + ": " + program.status().message());
      programs_[id].program = std::move(*program);
    }
    if (!schema_.avro.framed() && programs_.empty())
      throw std::invalid_argument(schema_.avro.where + ": the Avro schema has not been read");
    if (!schema_.avro.framed()) plain_ = &*programs_.at(0).program;
  }

  void Decode(const RecordBatch& batch, DecodedRows* out) override {
    RowSink sink(schema_, batch, out);
    Misfit why;
    if (plain_ != nullptr) {
      for (size_t i = 0; i < batch.size(); ++i) Take(*plain_, batch[i], i, &sink, &why);
      return;
    }
    if (registry_) FindSchemas(batch);
    uint32_t last = 0;
    const Known* known = nullptr;  // the last record's
    for (size_t i = 0; i < batch.size(); ++i) {
      const ByteView record = batch[i];
      if (!IsFramed(record)) {
        sink.Refuse(i, ReasonOfFrame(record));
        continue;
      }
      const uint32_t id = SchemaIdOf(record);
      if (known == nullptr || id != last) {
        const auto at = programs_.find(id);
        known = at == programs_.end() ? nullptr : &at->second;
        last = id;
      }
      if (known != nullptr && known->program) [[likely]] {
        Take(*known->program, record.subspan(kFrameBytes), i, &sink, &why);
      } else {
        sink.Refuse(i, "schema " + std::to_string(id) + ": " + (known ? known->unfit : ReasonOf(id)));
      }
    }
  }

 private:
  struct Known {
    std::optional<AvroProgram> program;
    std::string unfit;  // why there is none
  };

  static void Take(const AvroProgram& program, ByteView record, size_t i, RowSink* sink, Misfit* why) {
    if (sink->RefuseOversize(i)) return;
    if (program.Run(record, sink->row(), why)) [[likely]] {
      sink->Keep(i);
    } else {
      sink->Refuse(i, std::move(*why));
      *why = {};
    }
  }

  // Asks the registry for the ids of the batch that are not known.
  void FindSchemas(const RecordBatch& batch) {
    std::set<uint32_t> ids;
    for (size_t i = 0; i < batch.size(); ++i) {
      if (IsFramed(batch[i]) && !programs_.contains(SchemaIdOf(batch[i]))) ids.insert(SchemaIdOf(batch[i]));
    }
    if (ids.empty()) return;
    registry_->Find(ids, [this](uint32_t id, const std::string& text) {
      if (programs_.size() >= kMaxPrograms) programs_.clear();
      std::string where;
      auto program = CompileText(text, schema_, writers_, &where);
      Known& known = programs_[id];
      if (program.ok()) {
        known.program = std::move(*program);
      } else {
        known.unfit = program.status().message();
      }
    });
  }

  std::string ReasonOf(uint32_t id) const {
    if (registry_) return registry_->Reason(id);
    if (!schema_.avro.folder.empty())
      return "is not among those of " + schema_.avro.folder + " that fit the job";
    return "is not in the job's registry";
  }

  const Schema schema_;
  const Writers writers_;
  const std::unique_ptr<SchemaRegistry> registry_;
  std::unordered_map<uint32_t, Known> programs_;
  const AvroProgram* plain_ = nullptr;
};

}  // namespace

std::vector<std::string> UseAvro(const AvroTexts& texts, Schema* schema) {
  AvroSettings& avro = schema->avro;
  const bool folder = !avro.folder.empty();
  const Writers writers = MakeWriters(*schema);
  std::vector<bool> found(schema->fields.size());
  std::vector<std::string> unfit;
  avro.texts.clear();
  for (const auto& [id, text] : texts) {
    std::string where;
    const auto program = CompileText(text, *schema, writers, &where);
    if (program.ok()) {
      for (size_t i = 0; i < found.size(); ++i) found[i] = found[i] || program->Has(i);
      avro.texts.emplace(id, text);
      continue;
    }
    const std::string why = WriterName(avro, id) + ": " + program.status().message();
    if (!folder) throw std::invalid_argument((where.empty() ? avro.where : where) + ": " + why);
    unfit.push_back(why);
  }
  if (avro.texts.empty()) {
    throw std::invalid_argument(avro.where + ": no schema fits the job's fields" +
                                (unfit.empty() ? "" : ": " + unfit.back()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Field& field = schema->fields[i];
    if (writers[i] && !found[i])
      throw std::invalid_argument(field.where + ": field '" + field.path_text() +
                                  "' is in none of the Avro schemas");
  }
  return unfit;
}

std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema) {
  if (!schema.avro.registry) return MakeAvroDecoder(schema, nullptr);
  auto service = OrThrow(OpenRegistry(*schema.avro.registry));
  return MakeAvroDecoder(schema,
                         std::make_unique<SchemaRegistry>(std::move(service), schema.avro.registry->timeout));
}

std::unique_ptr<Decoder> MakeAvroDecoder(const Schema& schema, std::unique_ptr<SchemaRegistry> registry) {
  return std::make_unique<AvroDecoder>(schema, std::move(registry));
}

}  // namespace leat::stream
