// A slow link between this network namespace and another one. Needs root and iproute2.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace leat::bench {

// A network namespace behind a link of `gbit` Gbit/s per direction: one fifo of 50 ms at each end, as that of
// a network card. The destructor removes it. Throws std::runtime_error.
class ShapedLink {
 public:
  explicit ShapedLink(double gbit);
  ~ShapedLink() { Remove(); }
  ShapedLink(const ShapedLink&) = delete;
  ShapedLink& operator=(const ShapedLink&) = delete;

  const std::string& near_address() const { return near_address_; }
  const std::string& far_address() const { return far_address_; }
  // The launcher of a program in the namespace. It does not see the folder `hidden`, unless that is empty.
  std::vector<std::string> Enter(const std::string& hidden = {}) const;
  // The congestion control of connections that are made from now on, as "cubic".
  void SetCongestionControl(const std::string& name);
  // Bytes on the link so far, to and from the namespace, including headers.
  double SentTo() const;
  double SentFrom() const;

 private:
  void Remove();

  std::string name_, near_, far_, near_address_, far_address_;
};

}  // namespace leat::bench
