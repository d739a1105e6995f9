// SPDX-License-Identifier: BSD-3-Clause
// SharedHandleTable (base/handle_tables.hpp): find() beside insert() and erase().
#include "modelled.hpp"
//
#include "base/handle_tables.hpp"

namespace offbeat {
namespace {

// The smallest table has 64 slots. These handles have one hash value, so they take consecutive slots.
std::array<Handle, 3> handles_in_one_place() {
  std::array<Handle, 3> found{1};
  std::size_t count = 1;
  for (Handle handle = 2; count < found.size(); ++handle) {
    if (hash(handle, 64) == hash(found[0], 64)) found[count++] = handle;
  }
  return found;
}

class Table : public model::Protocol {
 public:
  explicit Table(std::size_t atomics) : Protocol({.bytes = 3 * sizeof(std::uint64_t), .atomics = atomics}) {}
  void end() override { table_.reset(); }

 protected:
  void insert(std::size_t k) {
    table_->reserve();
    std::uint64_t& value = reinterpret_cast<std::uint64_t*>(memory())[k];
    const std::uint64_t is = handles_[k];
    std::memcpy(&value, &is, sizeof is);
    table_->insert(handles_[k], value);
  }
  bool finds(std::size_t k) {
    const std::uint64_t* const found = table_->find(handles_[k]);
    if (found == nullptr) return false;
    std::uint64_t is = 0;
    std::memcpy(&is, found, sizeof is);
    model::require(is == handles_[k], "the value of another handle");
    return true;
  }
  const std::array<Handle, 3> handles_ = handles_in_one_place();
  std::optional<SharedHandleTable<std::uint64_t>> table_;
};

// The table has the second handle all the time. A thread erases the first one, so that the second moves into
// its slot, and inserts the third one.
class FindBesideChanges : public Table {
 public:
  FindBesideChanges() : Table(16) {}
  void begin() override {
    table_.emplace();
    insert(0);
    insert(1);
  }
  void run(int thread) override {
    if (thread == 0) {
      table_->erase(handles_[0]);
      insert(2);
      table_->erase(handles_[2]);
    } else {
      model::require(finds(1), "a handle is lost");
      static_cast<void>(finds(2));
      static_cast<void>(finds(0));
      model::require(finds(1), "a handle is lost");
    }
  }
  void end() override {
    model::require(!finds(0) && finds(1) && !finds(2), "the changes are wrong");
    Table::end();
  }
};

// Half of the slots are in use, so the table grows.
class FindWhileTheTableGrows : public Table {
 public:
  FindWhileTheTableGrows() : Table(400) {}
  void begin() override {
    table_.emplace();
    insert(0);
    for (Handle further = 1000; further < 1031; ++further) {
      table_->reserve();
      table_->insert(further, further_value_);
    }
  }
  void run(int thread) override {
    if (thread == 0) return insert(2);
    do {
      model::require(finds(0), "a handle is lost");
      model::yield();
    } while (!finds(2));
  }

 private:
  std::uint64_t further_value_ = 0;
};

TEST(ModelOfHandleTable, IsRight) {
  FindBesideChanges changes;
  model::expect_right(changes, 2);
  FindWhileTheTableGrows grows;
  model::expect_right(grows, 2);
}

TEST(ModelOfHandleTable, HasNeedOfEachStep) {
  FindBesideChanges changes;
  FindWhileTheTableGrows grows;
  using model::Change, model::Exempt, model::Place;
  model::expect_mutations_found(
      {&changes, &grows}, 2,
      {{"grow", Place::Kind::store, Change::leave_out, Exempt::Ending::crash, "there is no table"}});
}

}  // namespace
}  // namespace offbeat
