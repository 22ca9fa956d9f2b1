"""A view with the types of its keys and values: `client.view("orders", key=int, value=Order)`.

`conversion` is pure; `views` has the handles of both clients.
"""
