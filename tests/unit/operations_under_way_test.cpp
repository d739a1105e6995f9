// SPDX-License-Identifier: BSD-3-Clause
#include "groups/operations_under_way.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace offbeat {
namespace {

// What the progress loop may call for an owner: a group of several nodes needs the host for its messages, and
// a group of one node does not.
enum class Reach { several_nodes, one_node };

class Owner final : public OperationsOwner {
 public:
  explicit Owner(Reach reach) : OperationsOwner(0, 2, WhenHostEnds::go_on), reach_(reach) {}
  using OperationsOwner::accept;

 private:
  [[nodiscard]] Patience patience_of(int) override { return {}; }
  void prepare(BoardTransport&, int) override {}
  [[nodiscard]] HostCalls calls_of_operation(HostCalls calls) const override {
    return reach_ == Reach::one_node ? HostCalls::all : calls;
  }
  void require_intact() const override {}
  void break_down() override {}
  void begin_use() noexcept override {}
  [[nodiscard]] bool end_use() noexcept override { return false; }

  const Reach reach_;
};

// A message that notes when it begins.
class Message final : public Operation {
 public:
  Message(Owner& owner, std::vector<const Message*>& begun) : Operation(owner, Call{}, 0), begun_(begun) {
    prepare({.index = OperationPlan::no_index});
  }
  void end_next_time() { ends_ = true; }

 private:
  [[nodiscard]] bool step(bool& got_further, HostCalls) override {
    got_further = !has_begun_;
    if (!has_begun_) begun_.push_back(this);
    has_begun_ = true;
    return ends_;
  }
  [[nodiscard]] bool has_begun() const override { return has_begun_; }
  void abandon() noexcept override {}

  std::vector<const Message*>& begun_;
  bool has_begun_ = false;
  bool ends_ = false;
};

// Inside the host, the messages of one group begin, and those of another do not. The blocking message comes
// after both in the list.
TEST(OperationsUnderWay, ABlockingMessageBeginsAfterThoseOfItsGroup) {
  Owner far(Reach::several_nodes);
  Owner near(Reach::one_node);
  std::vector<const Message*> begun;
  Message first(far, begun);
  Message other(near, begun);
  Message blocking(far, begun);
  operations_under_way.announce(first);
  operations_under_way.announce(other);
  EXPECT_TRUE(operations_under_way.advance(HostCalls::none));
  EXPECT_EQ(begun, (std::vector<const Message*>{&other}));
  {
    const OperationsUnderWay::Lock lock(operations_under_way);
    far.accept(blocking);
    blocking.advance_first();
  }
  EXPECT_EQ(begun, (std::vector<const Message*>{&other, &first, &blocking}));
  for (Message* each : {&first, &other, &blocking}) each->end_next_time();
  operations_under_way.advance(HostCalls::messages);
  EXPECT_FALSE(operations_under_way.any());
}

}  // namespace
}  // namespace offbeat
