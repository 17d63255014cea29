// Dead letters as records of a Kafka topic.
//
// A record has the bytes and the key of the original one, and headers that say where it was and why it is
// dead: `leat.topic`, `leat.partition`, `leat.offset`, `leat.reason`, all text. Splits that are read again
// after a failure publish theirs again.
#pragma once

#include <memory>
#include <string>

#include "stream/decode/decoder.h"
#include "stream/kafka/kafka_client.h"

namespace leat::stream {

// `options.topic` is where they go. `from`: the topic that they come from.
Result<std::unique_ptr<DeadLetterSink>> OpenKafkaDeadLetters(const KafkaOptions& options, std::string from);

}  // namespace leat::stream
