#include "run/roles/feed/model_files.h"

#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "run/feed/client.h"

namespace leat::roles {

Status FetchFromFeeds(const feed::ClientOptions& feeds, const job::Asset& asset, const std::string& path) {
  constexpr Duration kRetry = std::chrono::milliseconds(500);
  const MonotonicClock clock;
  const Time until = clock.Now() + feeds.deadline;
  while (true) {
    feed::Client client(feeds);  // a new one may choose another feed
    Status status = feed::FetchAsset(client, asset.identity, path);
    const bool of_the_feed = status.code() == Code::kNotFound || status.code() == Code::kDataLoss;
    if (!of_the_feed || clock.Now() + kRetry >= until) return status;
    spdlog::warn("{}; trying again", status.message());
    std::this_thread::sleep_for(kRetry);
  }
}

std::vector<feed::Asset> ServedAssets(const job::Job& job) {
  std::vector<feed::Asset> served;
  for (const job::Asset& asset : job.assets)
    served.push_back({.path = asset.file, .identity = asset.identity});
  return served;
}

Result<nn::LayerFiles::Copies> ModelFiles::Find(const std::vector<job::Asset>& assets) {
  nn::LayerFiles::Copies copies;
  for (const job::Asset& asset : assets) {
    const Status own = job::CheckAsset(asset);
    if (own.ok()) continue;
    if (scratch_ == nullptr) {
      LEAT_ASSIGN_OR_RETURN(
          const std::string parent,
          ScratchParent(options_.scratch, own.message() + "; a copy from a feed needs a place on a disk"));
      LEAT_ASSIGN_OR_RETURN(scratch_, Scratch::Make(parent));
    }
    job::Asset copy = asset;
    copy.file = scratch_->path() + "/" + job::AssetFileName(asset.identity);
    if (!job::CheckAsset(copy).ok()) {
      const Status fetched = FetchFromFeeds(options_.feeds(), asset, copy.file);
      if (!fetched.ok()) return fetched.With(own.message() + "; fetching it from a feed");
      spdlog::info("{}; a copy of {} bytes is fetched from a feed", own.message(),
                   std::filesystem::file_size(copy.file));
    }
    copies[asset.path] = copy.file;
  }
  return copies;
}

}  // namespace leat::roles
