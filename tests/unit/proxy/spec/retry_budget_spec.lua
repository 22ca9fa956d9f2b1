local retry_budget = require "proxy.retry_budget"

local function spend_all(budget)
    local spent = 0
    while retry_budget.spend(budget) do
        spent = spent + 1
    end
    return spent
end

describe("the retry budget", function()
    it("1 starts with 100 tokens, and has at most 1,000", function()
        local budget = retry_budget.new()
        assert.equal(100, retry_budget.tokens(budget))
        for _ = 1, 20000 do
            retry_budget.earn(budget)
        end
        assert.equal(1000, retry_budget.tokens(budget))
        assert.equal(1000, spend_all(budget))
    end)

    it("2 earns one retry for ten requests", function()
        local budget = retry_budget.new()
        spend_all(budget)
        for _ = 1, 9 do
            retry_budget.earn(budget)
            assert.is_false(retry_budget.has(budget))
        end
        retry_budget.earn(budget)
        assert.is_true(retry_budget.has(budget))
        assert.equal(1, spend_all(budget))
        for _ = 1, 250 do
            retry_budget.earn(budget)
        end
        assert.equal(25, spend_all(budget))
    end)

    it("3 counts denials", function()
        local budget = retry_budget.new()
        spend_all(budget)
        assert.equal(1, budget.denied)
        assert.is_false(retry_budget.spend(budget))
        assert.equal(2, budget.denied)
        assert.equal(0, retry_budget.tokens(budget))
    end)
end)
