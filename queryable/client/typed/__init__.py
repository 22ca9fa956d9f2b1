"""A view with the types of its keys and values: `client.view("orders", key=int, value=Order)`.

`conversion` is pure; `sync_view` and `async_view` have the handles of both clients.
"""
