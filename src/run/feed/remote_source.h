// A stream that is read from feeds.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "run/feed/client.h"
#include "stream/source.h"

namespace leat::feed {

// The errors are those of the feed's source, and kUnavailable if no feed answers. Ranges is tried for
// `kRangesDeadline` only: it is called often.
inline constexpr Duration kRangesDeadline = std::chrono::seconds(5);
std::unique_ptr<stream::Source> MakeRemoteSource(std::shared_ptr<Client> client);

// Contents::description.
Result<std::string> Describe(Client& client);

// Writes the file with this identity, "BYTES:HASH", to `path`: first beside it, and with its name once it is
// whole and its hash is right. Files of more than `kMaxAssetBytes` are refused.
inline constexpr uint64_t kMaxAssetBytes = uint64_t{1} << 32;
Status FetchAsset(Client& client, const std::string& identity, const std::string& path);

}  // namespace leat::feed
